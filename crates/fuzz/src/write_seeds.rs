//! Writes the inputs that each target begins with: `barnabas-fuzz-seeds DIRECTORY` makes a directory per target there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let Some(directory) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: barnabas-fuzz-seeds DIRECTORY");
        return ExitCode::from(2);
    };
    match write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write(directory: &Path) -> io::Result<()> {
    for target in fuzz::TARGETS {
        let of_target = directory.join(target.name);
        fs::create_dir_all(&of_target)?;
        for (at, seed) in fuzz::seeds(target.name)?.into_iter().enumerate() {
            fs::write(of_target.join(format!("seed-{at:04}")), seed)?;
        }
    }
    Ok(())
}
