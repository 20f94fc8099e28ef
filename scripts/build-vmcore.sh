#!/bin/bash
# Makes a crash dump of a real kernel: scripts/build-vmcore.sh DIR
#
# Boots a Debian kernel in QEMU (no KVM needed) with a few files in memory, and dumps it. DIR then has core.elf,
# core.kdump (flattened, zlib), and vmlinux with the debug information that crash needs: about 900 MB, of which 310 MB are
# fetched. The test `a_real_dump_opens_in_crash` uses them: PACKFS_VMCORE=DIR cargo test -p packfs-dump.
set -euo pipefail
dir=${1:?usage: scripts/build-vmcore.sh DIR}
mkdir -p "$dir"
dir=$(realpath "$dir")
cd "$(dirname "$0")/.."
source scripts/needs.sh

need qemu-system-x86 qemu-system-x86_64
need busybox-static busybox
need cpio cpio
need socat socat
install_missing

cd "$dir"
dbg=$(apt-cache depends linux-image-cloud-amd64-dbg | sed -n 's/^ *Depends: //p' | head -1)
apt-get download "$dbg" "${dbg%-dbg}-unsigned"
for deb in ./*.deb; do dpkg-deb -x "$deb" files; done
mv files/usr/lib/debug/boot/vmlinux-* vmlinux

mkdir -p initrd/bin initrd/proc initrd/sys initrd/tmp
cp "$(command -v busybox)" initrd/bin/busybox
# The module by which the kernel tells QEMU of its VMCOREINFO.
find files -name qemu_fw_cfg.ko -exec cp {} initrd/ \;
cat > initrd/init <<'END'
#!/bin/busybox sh
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t tmpfs tmpfs /tmp
$busybox insmod /qemu_fw_cfg.ko
$busybox seq 1 1000000 > /tmp/text
$busybox dd if=/dev/urandom of=/tmp/random bs=1M count=16 2> /dev/null
echo READY
while true; do $busybox sleep 100; done
END
chmod +x initrd/init
(cd initrd && find . | cpio -o -H newc 2> /dev/null | gzip > ../initrd.gz)

timeout 600 qemu-system-x86_64 -accel tcg -cpu max -m 256 -smp 2 -kernel files/boot/vmlinuz-* -initrd initrd.gz \
    -append console=ttyS0 -device vmcoreinfo -display none -serial file:serial -monitor unix:monitor,server,nowait &
until grep -q READY serial 2> /dev/null; do sleep 1; kill -0 $! || exit 1; done
printf '%s\n' "dump-guest-memory $dir/core.elf" "dump-guest-memory -z $dir/core.kdump" quit |
    socat -t 120 - unix-connect:monitor > /dev/null
wait
rm -rf files initrd initrd.gz serial monitor ./*.deb
ls -l "$dir"
