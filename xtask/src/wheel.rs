//! `cargo xtask wheel`: the Python package `openchatml`, built by maturin.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The build tool, as `pip` takes it.
const MATURIN: &str = "maturin>=1.9,<2";

/// The most bytes of a wheel.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Builds the wheel into `target/wheels`. Maturin is installed into a virtual environment under
/// `target`, unless it is there.
pub(crate) fn wheel(root: &Path) -> Result<(), String> {
    let maturin = maturin(root)?;
    let folder = root.join("target/wheels");
    for old in built(&folder, ".whl")? {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    let mut build = Command::new(maturin);
    build.args(["build", "--release", "--locked", "--quiet", "--out"]);
    build.arg(&folder);
    build.current_dir(root.join("bindings/python"));
    run(&mut build)?;
    for wheel in built(&folder, ".whl")? {
        let bytes = std::fs::metadata(&wheel)
            .map_err(|error| format!("{}: {error}", wheel.display()))?
            .len();
        println!("wheel: {}, {bytes} bytes", wheel.display());
        if bytes > MAX_BYTES {
            return Err(format!("wheel: {bytes} bytes, more than {MAX_BYTES}"));
        }
    }
    Ok(())
}

/// Builds the source distribution into `target/wheels`.
///
/// It includes every crate, so that it builds without network.
pub(crate) fn sdist(root: &Path) -> Result<(), String> {
    let maturin = maturin(root)?;
    let folder = root.join("target/wheels");
    let work = root.join("target/wheel/sdist");
    if work.is_dir() {
        std::fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    }
    let mut pack = Command::new(maturin);
    pack.args(["sdist", "--out"]).arg(&work);
    pack.current_dir(root.join("bindings/python"));
    run(&mut pack)?;
    for plain in built(&work, ".tar.gz")? {
        let name = plain.file_name().unwrap_or_default();
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(&plain).arg("-C").arg(&work);
        run(&mut unpack)?;
        let stem = name.to_string_lossy().replace(".tar.gz", "");
        let tree = work.join(&stem);
        let manifest = "bindings/python/Cargo.toml";
        let mut vendor = Command::new(env!("CARGO"));
        vendor.args(["vendor", "--manifest-path", manifest]);
        vendor.args(["bindings/python/vendor"]).current_dir(&tree);
        // The configuration that names them is the output.
        let sources = vendor
            .output()
            .map_err(|error| format!("cargo vendor: {error}"))?;
        if !sources.status.success() {
            let why = String::from_utf8_lossy(&sources.stderr);
            return Err(format!("cargo vendor: {why}"));
        }
        let config = tree.join(".cargo/config.toml");
        let parent = config.parent().unwrap_or(&tree);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&config, &sources.stdout))
            .map_err(|error| format!("{}: {error}", config.display()))?;
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let target = folder.join(name);
        let mut pack = Command::new("tar");
        pack.arg("-czf")
            .arg(&target)
            .arg("-C")
            .arg(&work)
            .arg(&stem);
        run(&mut pack)?;
        println!("sdist: {}", target.display());
    }
    Ok(())
}

/// Returns the path of maturin.
fn maturin(root: &Path) -> Result<PathBuf, String> {
    let environment = root.join("target/wheel/venv");
    let maturin = environment.join("bin/maturin");
    if !maturin.is_file() {
        let mut create = Command::new("python3");
        create.args(["-m", "venv"]).arg(&environment);
        run(&mut create)?;
        let mut install = Command::new(environment.join("bin/python"));
        install.args(["-m", "pip", "install", "--quiet", "--no-input"]);
        install.arg("--disable-pip-version-check").arg(MATURIN);
        run(&mut install)?;
    }
    Ok(maturin)
}

/// Returns the distributions of the package in `folder` with this ending.
fn built(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("openchatml-") && name.ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program}: {status}"))
    }
}
