//! Probe.
use packfs_blocks::Progress;
use packfs_image::source::{Dir, Source, dir};
use packfs_image::{Plan, Tree, erofs};
use std::path::Path;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut o =
        erofs::Options { codec: a[3].parse().unwrap(), cluster_size: a[4].parse().unwrap(), ..Default::default() };
    o.target_kernel = "6.18".parse().unwrap();
    o.force = true;
    o.features = erofs::Features::from_bits_truncate(a[5].parse().unwrap());
    o.verify = std::env::var_os("NOVERIFY").is_none();
    if let Ok(j) = std::env::var("J") {
        o.threads = j.parse().unwrap();
    }
    let t = std::time::Instant::now();
    let r = erofs::build(Path::new(&a[2]), &o, &Progress::default(), |store| {
        let mut tree = Tree::default();
        Dir::new(Path::new(&a[1]), dir::Options::default()).scan(&mut tree, store)?;
        Ok(Plan { tree, order: Vec::new() })
    });
    println!("{:?} {:?}", t.elapsed(), r.map_err(|e| e.to_string()));
}
