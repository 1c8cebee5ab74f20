//! Roots and directories that are replaced by links after they were opened.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use logue_tools::{FolderHandle, Roots};

/// A directory with a root, and something secret beside it.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().canonicalize().unwrap();
    let (root, outside) = (path.join("root"), path.join("outside"));
    for (folder, text) in [(root.join("sub"), "inside"), (outside.clone(), "SECRET")] {
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), text).unwrap();
    }
    (place, root, outside)
}

#[test]
fn a_nested_root_is_not_opened_by_its_name() {
    let (_place, root, outside) = place();
    let roots = Roots::new([root.clone()]).unwrap();
    let nested = roots.beginning_with(&root.join("sub")).unwrap();
    fs::rename(root.join("sub"), root.join("moved")).unwrap();
    symlink(&outside, root.join("sub")).unwrap();
    // Another one is refused now, and the first one stays the directory that was opened.
    assert!(roots.beginning_with(&root.join("sub")).is_err());
    assert!(roots.beginning_with(&outside).is_err());
    let mut text = String::new();
    let mut opened = nested.open_file("file").unwrap();
    opened.file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "inside");
}

#[test]
fn no_function_of_a_directory_follows_a_link() {
    let (_place, root, outside) = place();
    symlink(&outside, root.join("folder")).unwrap();
    symlink(outside.join("file"), root.join("link")).unwrap();
    let folder = FolderHandle::open(&root).unwrap();
    let (link, file) = (OsStr::new("link"), OsStr::new("file"));
    assert!(folder.enter(OsStr::new("folder")).is_err());
    assert!(folder.open_file(link).is_err());
    assert!(folder.open_to_write(link).is_err());
    assert!(folder.metadata(link).is_err());
    assert!(folder.create_file(link, true).is_err());
    assert!(folder.create_folder(OsStr::new("folder"), true).is_err());
    for name in ["", ".", "..", "sub/file", "folder/file", "../outside/file"] {
        let name = OsStr::new(name);
        assert!(folder.enter(name).is_err(), "{name:?}");
        assert!(folder.open_file(name).is_err(), "{name:?}");
        assert!(folder.create_file(name, false).is_err(), "{name:?}");
        assert!(folder.rename(link, name).is_err(), "{name:?}");
        assert!(folder.remove_file(name).is_err(), "{name:?}");
    }
    // Names of links are moved, replaced and removed themselves.
    folder.hard_link(link, OsStr::new("second")).unwrap();
    drop(folder.create_file(file, true).unwrap());
    folder.rename(file, link).unwrap();
    folder.remove_file(OsStr::new("second")).unwrap();
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "SECRET");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
