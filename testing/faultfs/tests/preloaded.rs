//! The library, preloaded into a shell.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

fn library() -> PathBuf {
    let mut folder = std::env::current_exe().expect("the test has a path");
    folder.pop();
    let beside = folder.join("libfaultfs.so");
    folder.pop();
    let above = folder.join("libfaultfs.so");
    if beside.exists() { beside } else { above }
}

#[test]
fn the_second_write_fails_and_each_is_noted() {
    let folder = std::env::temp_dir().join(format!("faultfs-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = folder.canonicalize().expect("a path");
    let (inside, log) = (folder.join("inside"), folder.join("log"));
    std::fs::create_dir_all(&inside).expect("a folder");
    let ran = Command::new("sh")
        .args([
            "-c",
            "echo one > one; echo two > two || echo failed; echo three > three",
        ])
        .current_dir(&inside)
        .env("LD_PRELOAD", library())
        .env("FAULTFS_UNDER", &inside)
        .env("FAULTFS_LOG", &log)
        .env("FAULTFS_AT", "2")
        .env("FAULTFS_HOW", "ENOSPC")
        .output()
        .expect("sh runs");
    let read = |name: &str| std::fs::read_to_string(inside.join(name)).expect("it is there");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "failed\n", "{ran:?}");
    assert_eq!(
        (read("one"), read("two"), read("three")),
        ("one\n".into(), String::new(), "three\n".into())
    );
    let log = std::fs::read_to_string(log).expect("a log");
    let noted: Vec<_> = log
        .lines()
        .map(|line| line.rsplit('/').next().unwrap_or_default())
        .collect();
    assert_eq!(noted, ["one", "two", "three"], "{log}");
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn a_full_disk_refuses_larger_files_until_it_is_freed() {
    let folder = std::env::temp_dir().join(format!("faultfs-full-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let folder = folder.canonicalize().expect("a path");
    let (inside, switch) = (folder.join("inside"), folder.join("full"));
    std::fs::create_dir_all(&inside).expect("a folder");
    let ran = Command::new("sh")
        .args([
            "-c",
            "echo one > file; touch ../full; echo two >> file || echo refused\n\
             echo new > other || echo refused; echo 1 1<> file; rm ../full; echo two >> file",
        ])
        .current_dir(&inside)
        .env("LD_PRELOAD", library())
        .env("FAULTFS_UNDER", &inside)
        .env("FAULTFS_FULL", &switch)
        .output()
        .expect("sh runs");
    let text = std::fs::read_to_string(inside.join("file")).expect("it is there");
    assert_eq!(text, "1\ne\ntwo\n", "{ran:?}");
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "refused\nrefused\n",
        "{ran:?}"
    );
    std::fs::remove_dir_all(folder).expect("removed");
}
