//! Both disks.

use super::*;
use std::path::PathBuf;

const WRITE: OpenOptions = OpenOptions { write: true, create: true, truncate: false };

fn temporary() -> PathBuf {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("platform-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn slices(parts: &[Vec<u8>]) -> Vec<IoSlice<'_>> {
    parts.iter().map(|part| IoSlice::new(part)).collect()
}

#[test]
fn both_disks_do_the_same() {
    let root = temporary();
    let disks: [(&dyn Disk, PathBuf); 2] =
        [(&RealDisk, root.clone()), (&MemoryDisk::new(), PathBuf::from("/root"))];
    for (disk, root) in disks {
        disk.create_directories(&root.join("a/b")).unwrap();
        let path = root.join("a/b/file");
        assert_eq!(
            disk.open(&path, OpenOptions::default()).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        let file = disk.open(&path, WRITE).unwrap();
        // More buffers than one call takes.
        let parts = (0..2500u32).map(|n| n.to_be_bytes().to_vec()).collect::<Vec<_>>();
        file.write_all_at(&slices(&parts), 3).unwrap();
        assert_eq!(file.len().unwrap(), 3 + 10_000);
        let mut buffer = [9; 4];
        file.read_exact_at(&mut buffer, 3 + 4 * 2400).unwrap();
        assert_eq!(buffer, 2400u32.to_be_bytes());
        file.read_exact_at(&mut buffer, 0).unwrap();
        assert_eq!(buffer, [0; 4], "a hole reads as zeros");
        assert_eq!(file.read_at(&mut buffer, 20_000).unwrap(), 0);
        let end = file.read_exact_at(&mut buffer, 10_001).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);

        if file.reserve(1 << 20).is_ok() {
            assert_eq!(file.len().unwrap(), 10_003, "reserving does not change the length");
        }
        file.set_len(5).unwrap();
        file.sync().unwrap();
        disk.sync_directory(&root.join("a/b")).unwrap();
        file.set_modified(Timestamp(1_234_567_000)).unwrap();
        assert_eq!(
            disk.metadata(&path).unwrap(),
            Metadata { len: 5, is_directory: false, modified: Timestamp(1_234_567_000) }
        );

        disk.sync_everything(&root.join("a")).unwrap();
        assert_eq!(disk.list(&root.join("a")).unwrap(), [PathBuf::from("b")]);
        let busy = disk.remove_directory(&root.join("a/b")).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::DirectoryNotEmpty);
        disk.rename(&root.join("a/b"), &root.join("a/c")).unwrap();
        assert_eq!(disk.list(&root.join("a/c")).unwrap(), [PathBuf::from("file")]);
        disk.open(&root.join("a/other"), WRITE).unwrap();
        disk.rename(&root.join("a/other"), &root.join("a/c/file")).unwrap();
        assert_eq!(disk.metadata(&root.join("a/c/file")).unwrap().len, 0, "replaced");
        file.read_exact_at(&mut buffer, 0).expect("an open file outlives its name");
        disk.remove_file(&root.join("a/c/file")).unwrap();
        disk.remove_directory(&root.join("a/c")).unwrap();
        assert!(disk.space(&root).unwrap().usable > 0);
    }
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_lock_excludes_this_process_too() {
    let root = temporary();
    let disks: [(&dyn Disk, PathBuf); 2] =
        [(&RealDisk, root.clone()), (&MemoryDisk::new(), PathBuf::from("/"))];
    for (disk, root) in disks {
        let path = root.join(".lock");
        let held = disk.lock(&path).unwrap();
        assert_eq!(disk.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // The failed attempt must not have given the first lock up.
        assert_eq!(disk.lock(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(held);
        drop(disk.lock(&path).unwrap());
    }
    std::fs::remove_dir_all(root).unwrap();
}

/// `flock`-style locks do not conflict with the record locks that a JVM takes; `F_GETLK` sees the latter.
#[test]
fn the_lock_is_a_record_lock() {
    let root = temporary();
    let path = root.join(".lock");
    let held = RealDisk.lock(&path).unwrap();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
    let line = locks.lines().find(|line| line.contains(&format!(":{inode} "))).unwrap();
    assert!(line.contains("POSIX") && line.contains("WRITE") && line.ends_with("0 EOF"), "{line}");
    drop(held);
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_crash_keeps_what_was_synced() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let disk = MemoryDisk::new();
        disk.create_directories(Path::new("/d")).unwrap();
        let file = disk.open(Path::new("/d/f"), WRITE).unwrap();
        file.write_all_at(&[IoSlice::new(b"synced")], 0).unwrap();
        file.sync().unwrap();
        disk.sync_directory(Path::new("/d")).unwrap();
        file.write_all_at(&[IoSlice::new(b" lost?")], 6).unwrap();
        disk.rename(Path::new("/d/f"), Path::new("/d/g")).unwrap();

        let files = disk.crash(seed).files();
        assert_eq!(files, disk.crash(seed).files(), "the seed decides");
        assert_eq!(files.len(), 1);
        assert!(files[0].1.starts_with(b"synced"), "{files:?}");
        outcomes.insert(files[0].clone());
    }
    let disk = MemoryDisk::new();
    disk.create_directories(Path::new("/d")).unwrap();
    let file = disk.open(Path::new("/d/f"), WRITE).unwrap();
    file.write_all_at(&[IoSlice::new(b"all")], 0).unwrap();
    disk.sync_everything(Path::new("/d")).unwrap();
    assert_eq!(disk.crash(1).files(), disk.files());
    let names = outcomes.iter().map(|(name, _)| name).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(names.len(), 2, "the rename is there or not");
    assert!(outcomes.len() > 6, "writes are kept whole, in part, or not at all");
}

#[test]
fn faults_happen_where_they_were_asked_for() {
    let disk = MemoryDisk::new();
    disk.create_directories(Path::new("/d")).unwrap();
    let file = disk.open(Path::new("/d/f"), WRITE).unwrap();
    disk.fail_write(1, WriteFault::Short);
    disk.fail_write(2, WriteFault::Fails);
    let write = |position| file.write_all_at(&[IoSlice::new(b"1234")], position);
    write(0).unwrap();
    assert_eq!(write(4).unwrap_err().kind(), io::ErrorKind::WriteZero);
    assert_eq!(file.len().unwrap(), 6);
    write(6).unwrap_err();
    assert_eq!(file.len().unwrap(), 6);

    disk.set_capacity(Some(9));
    write(0).expect("overwriting needs no space");
    assert_eq!(write(6).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 9);
    disk.set_capacity(None);

    disk.set_failing("/d", true);
    file.len().unwrap_err();
    disk.list(Path::new("/d")).unwrap_err();
    disk.set_failing("/d", false);
    disk.cut_power_after(1);
    write(0).unwrap();
    write(0).unwrap_err();
}

#[test]
fn the_boot_id_tells_a_crash_of_the_machine_from_one_of_the_process() {
    let disk = MemoryDisk::new();
    assert_eq!(disk.copy().boot_id(), disk.boot_id());
    assert_ne!(disk.crash(1).boot_id(), disk.boot_id());
    assert_eq!(RealDisk.boot_id(), RealDisk.boot_id());
    assert!(RealDisk.boot_id().is_some_and(|id| id.len() == 36), "a UUID, on Linux");
}

/// A pipe in a log directory would hold up whoever opens it until somebody opens its other end.
#[test]
fn what_is_no_file_is_refused_at_once() {
    let root = temporary();
    let pipe = root.join("00000000000000000000.log");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    for write in [false, true] {
        let options = OpenOptions { write, create: false, truncate: false };
        let refused = RealDisk.open(&pipe, options).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    }
    std::fs::remove_dir_all(root).unwrap();
}
