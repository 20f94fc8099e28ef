//! Scripts that run a job on an engine: short, and meant to be changed by their users.

use std::path::Path;

use anyhow::{Result, bail};
use packfs_image::name::display;

use crate::args::Engine;

/// The tasks of a plan.
pub(super) struct Tasks {
    pub(super) tasks: u32,
    /// Number of images to assemble of a plan of many.
    pub(super) cut_images: Option<u32>,
}

/// Largest number of tasks that assemble the images of a plan of many.
const ASSEMBLIES: u32 = 64;

/// Returns the script for a plan of an image of `format`, or of many.
pub(super) fn script(engine: Engine, plan: &Path, format: &str, tasks: &Tasks) -> Result<String> {
    let plan = std::path::absolute(plan)?;
    let of = |ending: &str| plan.with_extension(ending);
    let (dir, image) = (of("shards"), of(if format == "erofs" { "erofs" } else { "sqfs" }));
    let (plan, dir, image) = (quoted(&plan)?, quoted(&dir)?, quoted(&image)?);
    let (shards, last) = (tasks.tasks, tasks.tasks.saturating_sub(1));
    // Of many images, those that are packed are made even if others failed.
    let (after, assemble, then) = match tasks.cut_images {
        None => ("afterok", format!("packfs assemble {plan} {dir} -o {image}"), String::new()),
        Some(_) => ("afterany", format!("packfs assemble {plan} {dir}"), format!("packfs status {plan} {dir}\n")),
    };
    let (exec, go_on) = if then.is_empty() { ("exec ", "") } else { ("", " || true") };
    let halt = if then.is_empty() { "now,fail=1" } else { "never" };
    Ok(match engine {
        Engine::Slurm => {
            let parts = tasks.cut_images.unwrap_or(1).min(ASSEMBLIES);
            let (array, part) = match parts {
                0 | 1 => (String::new(), String::new()),
                _ => (format!(" --array=0-{}", parts - 1), format!(" --shard \"$SLURM_ARRAY_TASK_ID/{parts}\"")),
            };
            let pack = format!(
                "#!/bin/sh -eu\n\
                 # Change partition, time and processors to suit. An array may be limited: scontrol show config | grep MaxArraySize\n\
                 job=$(sbatch --parsable --requeue --array=0-{last} --cpus-per-task=4 <<'END'\n\
                 #!/bin/sh\n\
                 exec packfs shard {plan} -o {dir} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
                 END\n\
                 )\n"
            );
            let assemble = format!(
                "sbatch --dependency=\"{after}:$job\" --kill-on-invalid-dep=yes{array} --cpus-per-task=4 <<'END'\n\
                 #!/bin/sh\n\
                 exec {assemble}{part} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
                 END\n"
            );
            if parts == 0 { pack } else { pack + &assemble }
        }
        Engine::Hq => format!(
            "#!/bin/sh -eu\n\
             # Failed tasks leave shards missing, which the assembly reports: then run this again.\n\
             hq submit --wait --cpus=4 --array=0-{last} packfs shard {plan} -o {dir} -j 4 -q{go_on}\n\
             {exec}{assemble}{go_on}\n{then}"
        ),
        Engine::K8s => format!(
            "# Never tried on a cluster. Set image and volume; mount sources and the paths below in all pods.\n\
             # When the job is complete: {assemble}\n\
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
             seq 0 {last} | parallel --quote --halt {halt} packfs shard {plan} {{}} -o {dir} -j 1 -q{go_on}\n\
             {exec}{assemble}{go_on}\n{then}"
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
