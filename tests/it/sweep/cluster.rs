//! A sweep as a Slurm job array.

use super::Place;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_job_script_is_shown_before_it_is_submitted() {
    let place = Place::new();
    let file = place.file(
        "array",
        "seeds = 2\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n",
    );
    let flags = [
        "--dry-run",
        "--no-probe",
        "--slurm",
        "3",
        "--threads",
        "2",
        "--slurm-option=--partition=short",
    ];
    let (fine, said, told) = place.swept(&file, "it's here", &flags);
    assert!(fine, "{told}");
    let script = &said[said.find("#!/bin/sh").unwrap()..];
    let folder = place
        .path("it's here")
        .display()
        .to_string()
        .replace('\'', r"'\''");
    let program = env!("CARGO_BIN_EXE_formwork");
    let wanted = format!(
        "#!/bin/sh\n#SBATCH --job-name=it-s-here\n#SBATCH --array=1-3\n#SBATCH --cpus-per-task=2\n\
         #SBATCH --output='{folder}/slurm-%A_%a.log'\n#SBATCH --requeue\n#SBATCH --signal=B:TERM@120\n#SBATCH --partition=short\n\
         exec '{program}' sweep '{folder}' --jobs 1 --threads 2 --lease 90 --no-wait\n"
    );
    assert_eq!(script, wanted);
    let wrong = [
        "--dry-run",
        "--no-probe",
        "--slurm",
        "3",
        "--slurm-option",
        "partition",
    ];
    let (fine, _, told) = place.swept(&file, "array", &wrong);
    assert!(
        !fine && told.contains("is not an option of sbatch"),
        "{told}"
    );
}

/// A Slurm controller and node on this machine, for one test. The daemons end when it is dropped.
struct Slurm {
    conf: PathBuf,
    daemons: Vec<Child>,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            drop(daemon.kill());
            drop(daemon.wait());
        }
    }
}

const DAEMONS: [&str; 2] = ["slurmctld", "slurmd"];

/// Finds a program in PATH and in the folders of system programs.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let mut all = std::env::split_paths(&path).chain(system);
    all.find_map(|folder| Some(folder.join(program)).filter(|file| file.is_file()))
}

/// Finds a port without a listener.
fn port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

impl Slurm {
    fn start(folder: &Path) -> Self {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        for part in ["state", "spool"] {
            fs::create_dir_all(folder.join(part)).unwrap();
        }
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        let user = String::from_utf8(user).unwrap();
        let (user, at, control, node) = (user.trim(), folder.display(), port(), port());
        let text = format!(
            "ClusterName=test\nSlurmctldHost={host}(127.0.0.1)\nAuthType=auth/none\nCredType=cred/none\n\
             MpiDefault=none\nProctrackType=proctrack/linuxproc\nReturnToService=2\nSlurmctldPort={control}\n\
             SlurmdPort={node}\nSlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/control.pid\nSlurmdPidFile={at}/node.pid\n\
             SlurmctldLogFile={at}/control.log\nSlurmdLogFile={at}/node.log\nTaskPlugin=task/none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
             NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        );
        let conf = folder.join("slurm.conf");
        fs::write(&conf, text).unwrap();
        let daemon = |name: &str| {
            let mut command = Command::new(installed(name).unwrap());
            command.arg("-D").env("SLURM_CONF", &conf);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let daemons = DAEMONS.map(daemon).into();
        Self { conf, daemons }
    }

    fn ask(&self, program: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(program);
        let output = command
            .args(arguments)
            .env("SLURM_CONF", &self.conf)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Waits for something that Slurm does at its own pace.
fn wait_for(what: &str, mut seen: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !seen() {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "{what}: not within two minutes"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_tasks_of_an_array_share_the_cells() {
    let missing: Vec<&str> = ["slurmctld", "slurmd", "sbatch", "squeue", "sinfo"]
        .into_iter()
        .filter(|program| installed(program).is_none())
        .collect();
    if !missing.is_empty() {
        println!(
            "skipped: {} not installed (Debian: slurmctld, slurmd, slurm-client)",
            missing.join(", ")
        );
        return;
    }
    let place = Place::new();
    let file = place.file(
        "array",
        "seeds = 2\n[ablation.axes]\n\"model.n_layers\" = [1, 2]\n",
    );
    let cluster = tempfile::tempdir().unwrap();
    let slurm = Slurm::start(cluster.path());
    wait_for("a node", || {
        slurm.ask("sinfo", &["-h", "-o", "%t"]).contains("idle")
    });
    let flags = ["--slurm", "3", "--slurm-option=--partition=short"];
    let mut sweep = place.sweep(&file, "array", &flags);
    let output = sweep.env("SLURM_CONF", &slurm.conf).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("Submitted batch job"),
        "{said}{:?}",
        output.stderr
    );
    wait_for("the array's end", || {
        slurm.ask("squeue", &["-h"]).trim().is_empty()
    });
    let (fine, said, told) = place.swept(&file, "array", &[]);
    let logs = || {
        let logs = super::entries(&place.path("array")).into_iter();
        let logs = logs.filter(|path| path.extension().is_some_and(|e| e == "log"));
        logs.map(|log| fs::read_to_string(log).unwrap())
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        fine && said.starts_with("4 cells done"),
        "{said}{told}{}",
        logs()
    );
    assert!(
        super::begun(&told).is_empty(),
        "the array left cells: {told}{}",
        logs()
    );
    assert_eq!(super::begun(&logs()).len(), 4, "{}", logs());
}
