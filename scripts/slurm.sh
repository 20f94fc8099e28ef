#!/bin/bash
# A Slurm cluster on this machine, for tests: one controller and three nodes with four processors each, on loopback only.
#
#   usage: slurm.sh up DIR       starts it; DIR/slurm.conf is its SLURM_CONF
#          slurm.sh node DIR N   starts node N (1 to 3) again
#          slurm.sh down DIR     stops it
#
# Needs root, and Debian's slurmctld, slurmd, slurm-client and munge. Everything it writes is below DIR, whose path must
# be short enough for a socket.
set -euo pipefail

die() { printf 'slurm.sh: %s\n' "$*" >&2; exit 1; }

(($# >= 2)) || die "usage: slurm.sh up|node|down DIR"
mkdir -p "$2"
dir=$(realpath "$2")
export SLURM_CONF=$dir/slurm.conf
PATH=$PATH:/usr/sbin

# Returns a port from which four are free.
free_ports() {
    python3 - <<'END'
import random, socket

def free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False

print(next(p for p in iter(lambda: random.randrange(20000, 30000), None) if all(free(p + n) for n in range(4))))
END
}

# Waits until a command succeeds.
soon() {
    local end=$((SECONDS + 30))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || die "not after 30 seconds: $*; see the logs in $dir"
        sleep 0.1
    done
}

configure() {
    local port=$1 host
    host=$(hostname -s)
    cat >"$SLURM_CONF" <<END
ClusterName=packfs
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=$dir/munge.socket
AuthType=auth/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/slurmctld.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdSpoolDir=$dir/spool.%n
SlurmdPidFile=$dir/%n.pid
SlurmdLogFile=$dir/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
# More processors than there are: tasks of tests are short.
SlurmdParameters=config_overrides
# A node that died is found, and its tasks run again, in seconds.
SlurmdTimeout=5
MinJobAge=300
SchedulerParameters=bf_interval=1,sched_min_interval=100000
END
    local n
    for n in 1 2 3; do
        echo "NodeName=n$n NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + n)) CPUs=4" >>"$SLURM_CONF"
    done
    echo "PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE" >>"$SLURM_CONF"
}

up() {
    chmod 755 "$dir"
    mkdir -p "$dir/state"
    configure "$(free_ports)"
    head -c 1024 /dev/urandom >"$dir/munge.key"
    chmod 600 "$dir/munge.key"
    munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munged.log" --seed-file="$dir/munged.seed"
    slurmctld
    local n
    for n in 1 2 3; do slurmd -N "n$n"; done
    soon idle
}

# True if all nodes wait for work.
idle() {
    [[ $(sinfo --noheader --Node --format=%t | sort -u) == idle ]]
}

down() {
    local file pid
    for file in "$dir"/n?.pid "$dir/slurmctld.pid" "$dir/munged.pid"; do
        [[ -e $file ]] || continue
        pid=$(<"$file")
        kill "$pid" 2>/dev/null || continue
        soon eval "! kill -0 $pid"
    done
}

case $1 in
up) up ;;
node) slurmd -N "n${3:?number of the node}" ;;
down) down ;;
*) die "usage: slurm.sh up|node|down DIR" ;;
esac
