//! Scripts that run a job on an engine: short, and meant to be changed by their users.

use std::path::Path;

use anyhow::{Result, bail};
use packfs_image::name::display;

use crate::args::TaskEngine;

/// The tasks of a plan.
pub(super) struct PlanTasks {
    pub(super) tasks: u32,
    /// Number of images to assemble of a plan of many.
    pub(super) cut_images: Option<u32>,
}

/// Largest number of tasks that assemble the images of a plan of many.
const ASSEMBLIES: u32 = 64;

/// Returns the script for a plan of an image of `format`, or of many.
pub(super) fn make_script(engine: TaskEngine, plan: &Path, format: &str, tasks: &PlanTasks) -> Result<String> {
    let plan = std::path::absolute(plan)?;
    let beside_plan = |ending: &str| quote_path(&plan.with_extension(ending));
    let dir = beside_plan("shards")?;
    let image = beside_plan(if format == "erofs" { "erofs" } else { "sqfs" })?;
    let plan = quote_path(&plan)?;
    let assemble = match tasks.cut_images {
        None => format!("packfs assemble {plan} {dir} -o {image}"),
        Some(_) => format!("packfs assemble {plan} {dir}"),
    };
    let words = ScriptWords { plan, dir, assemble, shards: tasks.tasks, cut_images: tasks.cut_images };
    Ok(match engine {
        TaskEngine::Slurm => words.slurm(),
        TaskEngine::Hq => words.hyperqueue(),
        TaskEngine::K8s => words.kubernetes(),
        TaskEngine::Parallel => words.parallel(),
    })
}

/// Parts of the scripts of all engines; paths are quoted.
struct ScriptWords {
    plan: String,
    /// Directory of the shards.
    dir: String,
    /// The command that assembles.
    assemble: String,
    shards: u32,
    cut_images: Option<u32>,
}

impl ScriptWords {
    fn last_shard(&self) -> u32 {
        self.shards.saturating_sub(1)
    }

    /// Returns the end of the command that packs, and the lines that assemble. Of many images, those that are packed are
    /// assembled even if others failed, and the status names what is missing; an image alone needs all of its shards.
    fn after_packing(&self) -> (&'static str, String) {
        let ScriptWords { plan, dir, assemble, cut_images, .. } = self;
        match cut_images {
            None => ("", format!("exec {assemble}\n")),
            Some(_) => (" || true", format!("{assemble} || true\npackfs status {plan} {dir}\n")),
        }
    }

    fn slurm(&self) -> String {
        let ScriptWords { plan, dir, assemble, cut_images, .. } = self;
        let last = self.last_shard();
        let after = if cut_images.is_some() { "afterany" } else { "afterok" };
        let parts = cut_images.unwrap_or(1).min(ASSEMBLIES);
        let array = if parts > 1 { format!(" --array=0-{}", parts - 1) } else { String::new() };
        let part = if parts > 1 { format!(" --shard \"$SLURM_ARRAY_TASK_ID/{parts}\"") } else { String::new() };
        let pack = format!(
            "#!/bin/sh -eu\n\
             # Change partition, time and processors to suit. An array may be limited: scontrol show config | grep MaxArraySize\n\
             job=$(sbatch --parsable --requeue --array=0-{last} --cpus-per-task=4 <<'END'\n\
             #!/bin/sh\n\
             exec packfs shard {plan} -o {dir} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
             END\n\
             )\n"
        );
        // Without `--kill-on-invalid-dep`, an assembly whose shards have failed would wait forever.
        let assemble = format!(
            "sbatch --dependency=\"{after}:$job\" --kill-on-invalid-dep=yes{array} --cpus-per-task=4 <<'END'\n\
             #!/bin/sh\n\
             exec {assemble}{part} -j \"$SLURM_CPUS_PER_TASK\" -q\n\
             END\n"
        );
        if parts == 0 { pack } else { pack + &assemble }
    }

    fn hyperqueue(&self) -> String {
        let ScriptWords { plan, dir, .. } = self;
        let last = self.last_shard();
        let (go_on, assemble) = self.after_packing();
        format!(
            "#!/bin/sh -eu\n\
             # Failed tasks leave shards missing, which the assembly reports: then run this again.\n\
             hq submit --wait --cpus=4 --array=0-{last} packfs shard {plan} -o {dir} -j 4 -q{go_on}\n\
             {assemble}"
        )
    }

    fn kubernetes(&self) -> String {
        let ScriptWords { plan, dir, assemble, shards, .. } = self;
        format!(
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
        )
    }

    fn parallel(&self) -> String {
        let ScriptWords { plan, dir, cut_images, .. } = self;
        let last = self.last_shard();
        let halt = if cut_images.is_some() { "never" } else { "now,fail=1" };
        let (go_on, assemble) = self.after_packing();
        format!(
            "#!/bin/sh -eu\n\
             # Add --sshloginfile FILE for other machines, and --jobs N for how many shards run on each.\n\
             seq 0 {last} | parallel --quote --halt {halt} packfs shard {plan} {{}} -o {dir} -j 1 -q{go_on}\n\
             {assemble}"
        )
    }
}

/// Quotes a path for a shell. In the script for Kubernetes, the quotes are within a YAML string in double quotes.
fn quote_path(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(text) if !text.contains(['\'', '\n', '"', '\\']) => Ok(format!("'{text}'")),
        _ => bail!("{}: such a name cannot be written into a script; choose another for the plan", display(path)),
    }
}
