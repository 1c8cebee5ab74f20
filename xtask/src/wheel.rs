//! `cargo xtask wheel`: the Python package `openchatml`, built by maturin.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::wasm::standard_library;

/// The build tool, as `pip` takes it.
const MATURIN: &str = "maturin>=1.9,<2";

/// The most bytes of a wheel.
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The compiler of C and the linker for musl, as `pip` takes it.
const ZIG: &str = "ziglang>=0.13";

/// The target of the wheel for musl.
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Builds the wheel into `target/wheels`. Maturin is installed into a virtual environment under
/// `target`, unless it is there.
pub(crate) fn wheel(root: &Path) -> Result<(), String> {
    let mut build = Command::new(maturin(root)?);
    build.args(["build", "--release", "--locked", "--quiet"]);
    wheels(root, build, false).map(drop)
}

/// Builds the wheel for Linux with musl, which needs its standard library.
///
/// `sysroot` is an installation of Rust with the sources of the library, such as the unpacked
/// Debian packages `rustc-web`, `cargo-web` and `rust-web-src` with their libraries. Without it, the
/// library of the installed toolchain is used.
pub(crate) fn musl(root: &Path, sysroot: Option<&str>) -> Result<(), String> {
    let maturin = maturin(root)?;
    let mut build = Command::new(&maturin);
    build.args(["build", "--release", "--locked", "--quiet", "--zig"]);
    build.args(["--target", MUSL, "--compatibility", "musllinux_1_2"]);
    match sysroot {
        Some(sysroot) => from_sources(&mut build, Path::new(sysroot))?,
        None if standard_library(MUSL)?.is_dir() => {}
        None => {
            return Err(format!(
                "wheel: the standard library of {MUSL} is not installed; `rustup target add {MUSL}` \
                 gets it, or `cargo xtask wheel --musl SYSROOT` builds it from an installation with \
                 lib/rustlib/src/rust"
            ));
        }
    }
    let python = maturin.with_file_name("python");
    let mut find = Command::new(&python);
    find.args(["-c", "import ziglang"]).stderr(Stdio::null());
    if !find.status().is_ok_and(|status| status.success()) {
        install(&python, ZIG)?;
    }
    build.env("CARGO_ZIGBUILD_PYTHON_PATH", &python);
    for wheel in wheels(root, build, true)? {
        let mut check = Command::new(&python);
        check.arg("-c").arg(WITHOUT_GLIBC).arg(&wheel);
        run(&mut check)?;
    }
    Ok(())
}

/// Fails if an extension module in a wheel has a symbol of glibc.
const WITHOUT_GLIBC: &str = "import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
for name in wheel.namelist():
    if name.endswith('.so') and b'GLIBC_' in wheel.read(name):
        sys.exit(f'wheel: {name} needs glibc')
";

/// Has a build take its compiler from `sysroot`, and build the standard library.
fn from_sources(build: &mut Command, sysroot: &Path) -> Result<(), String> {
    let sysroot =
        std::path::absolute(sysroot).map_err(|error| format!("{}: {error}", sysroot.display()))?;
    for needed in ["bin/rustc", "bin/cargo", "lib/rustlib/src/rust/library"] {
        let path = sysroot.join(needed);
        if !path.exists() {
            return Err(format!("wheel: {} not found", path.display()));
        }
    }
    let bin = sysroot.join("bin");
    // Where Debian has the libraries of the compiler.
    let libraries = [sysroot.join("lib/x86_64-linux-gnu"), sysroot.join("lib")];
    let before = |name: &str, first: &[PathBuf]| {
        let old = std::env::var_os(name).unwrap_or_default();
        let old: Vec<PathBuf> = std::env::split_paths(&old).collect();
        std::env::join_paths(first.iter().chain(&old))
            .map_err(|error| format!("{}: {error}", sysroot.display()))
    };
    build.env("LD_LIBRARY_PATH", before("LD_LIBRARY_PATH", &libraries)?);
    build.env("PATH", before("PATH", std::slice::from_ref(&bin))?);
    build.env("RUSTC", bin.join("rustc"));
    build.env("CARGO", bin.join("cargo"));
    // A toolchain of another version must not meet what this one compiled.
    build.env("CARGO_TARGET_DIR", "target/musl");
    build.env("RUSTC_BOOTSTRAP", "1");
    build.args(["-Z", "build-std=std,panic_abort"]);
    Ok(())
}

/// Runs a build of a wheel and returns the wheels of its kind.
fn wheels(root: &Path, mut build: Command, is_musl: bool) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("target/wheels");
    let of_kind = || -> Result<Vec<PathBuf>, String> {
        let mut found = built(&folder, ".whl")?;
        found.retain(|wheel| wheel.to_string_lossy().contains("musllinux") == is_musl);
        Ok(found)
    };
    for old in of_kind()? {
        std::fs::remove_file(&old).map_err(|error| format!("{}: {error}", old.display()))?;
    }
    build.arg("--out").arg(&folder);
    build.current_dir(root.join("bindings/python"));
    run(&mut build)?;
    let wheels = of_kind()?;
    for wheel in &wheels {
        let bytes = std::fs::metadata(wheel)
            .map_err(|error| format!("{}: {error}", wheel.display()))?
            .len();
        println!("wheel: {}, {bytes} bytes", wheel.display());
        if bytes > MAX_BYTES {
            return Err(format!("wheel: {bytes} bytes, more than {MAX_BYTES}"));
        }
    }
    Ok(wheels)
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
        install(&environment.join("bin/python"), MATURIN)?;
    }
    Ok(maturin)
}

/// Installs a package for a Python.
fn install(python: &Path, package: &str) -> Result<(), String> {
    let mut install = Command::new(python);
    install.args(["-m", "pip", "install", "--quiet", "--no-input"]);
    install.arg("--disable-pip-version-check").arg(package);
    run(&mut install)
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
