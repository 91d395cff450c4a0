//! The run: LibAFL's engine over the target.

use std::fs;
use std::path::{Path, PathBuf};

use libafl::corpus::{CachedOnDiskCorpus, Corpus, InMemoryCorpus};
use libafl::events::SimpleEventManager;
use libafl::feedbacks::{CrashFeedback, MaxMapFeedback, TimeoutFeedback};
use libafl::inputs::BytesInput;
use libafl::monitors::NopMonitor;
use libafl::mutators::{HavocScheduledMutator, Tokens, havoc_mutations, tokens_mutations};
use libafl::schedulers::QueueScheduler;
use libafl::stages::StdMutationalStage;
use libafl::state::{HasCorpus, HasMaxSize, StdState};
use libafl::{Error, Evaluator, Fuzzer, HasMetadata, StdFuzzer, feedback_or_fast};
use libafl_bolts::rands::StdRand;
use libafl_bolts::tuples::{Merge, tuple_list};

use crate::execution::TargetExecutor;

/// The inputs of the corpus that are in memory. All are on disk.
const CACHED_INPUTS_MAX: usize = 4096;

/// The start of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Folders with inputs to start from.
    pub(crate) seeds: Vec<PathBuf>,
    /// A file of tokens, in AFL's form.
    pub(crate) dictionary: Option<PathBuf>,
    /// Where inputs that pass new edges go.
    pub(crate) queue: PathBuf,
    pub(crate) input_bytes_max: usize,
    /// Two runs with the same seed, target and inputs do the same.
    pub(crate) seed: u64,
}

/// Runs until the executor says that the run is over. Returns the number of crashes and hangs that are new.
pub(crate) fn run(plan: &Plan, executor: &mut TargetExecutor) -> Result<usize, Error> {
    let seeds = read_seeds(plan)?;
    let mut feedback = MaxMapFeedback::new(executor.edges());
    let mut objective = feedback_or_fast!(CrashFeedback::new(), TimeoutFeedback::new());
    let queue = CachedOnDiskCorpus::<BytesInput>::with_meta_format_and_prefix(
        &plan.queue,
        CACHED_INPUTS_MAX,
        None,
        None,
        false,
    )?;
    // The executor keeps the faults; these count them.
    let faults = InMemoryCorpus::new();
    let rand = StdRand::with_seed(plan.seed);
    let mut state = StdState::new(rand, queue, faults, &mut feedback, &mut objective)?;
    state.set_max_size(plan.input_bytes_max);
    if let Some(path) = &plan.dictionary {
        state.add_metadata(Tokens::from_file(path)?);
    }
    let mut manager = SimpleEventManager::new(NopMonitor::new());
    let mut fuzzer = StdFuzzer::new(QueueScheduler::new(), feedback, objective);
    let mutator = HavocScheduledMutator::new(havoc_mutations().merge(tokens_mutations()));
    let mut stages = tuple_list!(StdMutationalStage::new(mutator));
    let ended = (|| {
        for seed in &seeds {
            fuzzer.evaluate_input(&mut state, executor, &mut manager, seed)?;
        }
        if state.corpus().count() == 0 {
            let one = BytesInput::new(vec![0]);
            fuzzer.add_input(&mut state, executor, &mut manager, one)?;
        }
        loop {
            fuzzer.fuzz_one(&mut stages, executor, &mut state, &mut manager)?;
        }
    })();
    executor.end(&state);
    match ended {
        Ok(never) => never,
        Err(Error::ShuttingDown) => Ok(libafl::state::HasSolutions::solutions(&state).count()),
        Err(error) => Err(error),
    }
}

/// The files in the folders, in the order of their names, and of earlier runs; each once, none too long.
fn read_seeds(plan: &Plan) -> Result<Vec<BytesInput>, Error> {
    let mut seeds = Vec::new();
    let mut too_long = 0;
    for folder in plan.seeds.iter().chain([&plan.queue]) {
        for path in files(folder)? {
            let bytes = fs::read(path)?;
            if bytes.len() <= plan.input_bytes_max {
                seeds.push(BytesInput::new(bytes));
            } else {
                too_long += 1;
            }
        }
    }
    if too_long > 0 {
        println!("{too_long} inputs of more than {} bytes are left out", plan.input_bytes_max);
    }
    Ok(seeds)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}
