//! Scripts that run a job on an engine: short, and meant to be changed by their users.

use std::path::Path;

use anyhow::{Result, bail};
use packfs_image::name::display;

use crate::args::Engine;

/// Returns the script for a plan of so many shards.
pub(super) fn script(engine: Engine, plan: &Path, format: &str, shards: u32) -> Result<String> {
    let plan = std::path::absolute(plan)?;
    let of = |ending: &str| plan.with_extension(ending);
    let (dir, image) = (of("shards"), of(if format == "erofs" { "erofs" } else { "sqfs" }));
    let (plan, dir, image) = (quoted(&plan)?, quoted(&dir)?, quoted(&image)?);
    let last = shards.saturating_sub(1);
    Ok(match engine {
        Engine::Slurm => format!(
            "#!/bin/sh -eu\n\
             # Change partition, time and processors to suit. An array may be limited: scontrol show config | grep MaxArraySize\n\
             job=$(sbatch --parsable --requeue --array=0-{last} --cpus-per-task=4 <<'END'\n\
             #!/bin/sh\n\
             exec packfs shard {plan} -o {dir} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
             END\n\
             )\n\
             sbatch --dependency=\"afterok:$job\" --cpus-per-task=4 <<'END'\n\
             #!/bin/sh\n\
             exec packfs assemble {plan} {dir} -o {image} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
             END\n"
        ),
        Engine::Hq => format!(
            "#!/bin/sh -eu\n\
             # Failed tasks leave shards missing, which the assembly reports: then run this again.\n\
             hq submit --wait --cpus=4 --array=0-{last} packfs shard {plan} -o {dir} -j 4 -q\n\
             exec packfs assemble {plan} {dir} -o {image}\n"
        ),
        Engine::K8s => format!(
            "# Never tried on a cluster. Set image and volume; mount sources and the paths below in all pods.\n\
             # When the job is complete: packfs assemble {plan} {dir} -o {image}\n\
             apiVersion: batch/v1\n\
             kind: Job\n\
             metadata: {{name: packfs}}\n\
             spec:\n\
             \x20 completionMode: Indexed\n\
             \x20 completions: {shards}\n\
             \x20 parallelism: {shards}\n\
             \x20 template:\n\
             \x20   spec:\n\
             \x20     restartPolicy: OnFailure\n\
             \x20     containers:\n\
             \x20     - name: shard\n\
             \x20       image: packfs\n\
             \x20       command: [sh, -c, \"exec packfs shard {plan} -o {dir} -q\"]\n"
        ),
        Engine::Parallel => format!(
            "#!/bin/sh -eu\n\
             # Add --sshloginfile FILE for other machines, and --jobs N for how many shards run on each.\n\
             seq 0 {last} | parallel --quote --halt now,fail=1 packfs shard {plan} {{}} -o {dir} -j 1 -q\n\
             exec packfs assemble {plan} {dir} -o {image}\n"
        ),
    })
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) if !text.contains(['\'', '\n', '"', '\\']) => Ok(format!("'{text}'")),
        _ => bail!("{}: such a name cannot be written into a script; choose another for the plan", display(path)),
    }
}
