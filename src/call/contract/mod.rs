//! The functions of the executor that the controller calls: each declared once, so that drift is a type error.
//!
//! The executor implements each one with its `Serve` trait and offers its address under [`Remote::NAME`] in the setup
//! message; the controller calls it with [`Remote::Args`]. Where a function belongs to an object in the executor, the
//! first argument is that object's address, offered under a name as well.

pub(crate) mod handler_call;
pub(crate) mod name_hashes;
pub(super) mod other_names;

use crate::error::Result;
use crate::sps::{AllocGroup, Bytes, Decode, Encode, Expected, Reader, Status};
use crate::{AddrRange, ExecutorAddr, Prot};

/// A function of the executor.
pub(crate) trait Remote {
    /// The arguments, a tuple.
    type Args: Encode + for<'a> Decode<'a>;
    /// The result; failure is answered out of band.
    type Ret: Encode + for<'a> Decode<'a>;
    /// The name under which the setup message offers the address.
    const NAME: &'static str;
}

macro_rules! remote {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: $args:ty => $ret:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl Remote for $name {
            type Args = $args;
            type Ret = $ret;
            const NAME: &'static str = $symbol;
        }
    )*};
}

/// The first argument of an executor's program is `--farcall-executor=SOCKET,PARENT`: the control socket's descriptor, then
/// the controller's process number.
pub(crate) const EXECUTOR_ARGUMENT: &str = "--farcall-executor=";
/// The end of that argument where the executor has to close every descriptor above its socket's.
pub(crate) const CLOSE_OTHERS: &str = ",close";
/// In front of that end, and of [`CONFINE`]: debuggers can write the code.
pub(crate) const DEBUGGABLE: &str = ",debuggable";
/// In front of that end: how the executor has to confine itself.
pub(crate) const CONFINE: &str = ",confine=";
/// The very end of that argument where the executor has to part a start zygote from itself. Its socket is the descriptor behind the
/// control socket's.
pub(crate) const START_ZYGOTE: &str = ",zygote";

/// The names of two numbers: the executor's version, and the bits of its features.
pub(crate) const VERSION: &str = "farcall_version";
pub(crate) const FEATURES: &str = "farcall_features";

/// The name of a number: what the kernel enforces on the executor.
pub(crate) const ENFORCED: &str = "farcall_enforced";

/// The name of the address at which the executor has mapped the slab that came with the first lane. Not offered where it could
/// not map the slab.
pub(crate) const NEAR_SLAB: &str = "farcall_near_slab";

/// The tag under which the executor asks the controller for the names of linked code; no handler has it. The argument is
/// [`OldExports`], and the result is [`NewExports`].
pub(crate) const EXPORTS_TAG: u64 = 0;
/// A library with the names of all links that a session had at one time. The first number is that of the session, which no
/// other session of any controller has meanwhile. The second one counts the session's changes until then.
pub(crate) type ExportsNumber = (u64, u64);
/// The libraries that the executor has, of any session.
pub(crate) type OldExports = Vec<ExportsNumber>;
/// The library of this session, if the executor does not have it. It takes the place of an older one of the session.
pub(crate) type NewExports = Option<(ExportsNumber, Bytes)>;

/// The name of the session's address in the executor, which is the first argument of the `Memory` functions.
pub(crate) const SESSION_INSTANCE: &str = "farcall_session_instance";

/// The name of the function by which a controller lets a session call: over its lane the session has no other right to send.
/// The session's calls go out inside of this one. The argument is a time in microseconds; the result is how many calls were
/// made. It returns once at least one call was made and none waits, or when the time is over. Not offered where a session's
/// calls go out by themselves.
pub(crate) const ATTEND: &str = "farcall_attend";

/// The name of a number: the offset from the thread pointer at which every thread has its reserve for static thread-locals. It
/// is a multiple of the page size; thread pointers are aligned to pages.
pub(crate) const STATIC_TLS_OFFSET: &str = "farcall_static_tls_offset";
/// The name of that reserve's size in bytes; 0 when there is none.
pub(crate) const STATIC_TLS_BYTES: &str = "farcall_static_tls_bytes";

/// The name of a number: what the executor adds to the addresses in the file that this library is in.
#[cfg(feature = "isolate")]
pub(crate) const FILE_BASE: &str = "farcall_file_base";
/// The name of a number: the first eight bytes of that file's build id.
#[cfg(feature = "isolate")]
pub(crate) const FILE_BUILD_ID: &str = "farcall_file_build_id";

/// The name of the function that linked code calls for the address of a dynamic thread-local. Its argument is the address of
/// two words: the number of a block ([`ThreadBlockRegister`]) and the offset in it. Not offered where there is no reserve.
pub(crate) const THREAD_ADDRESS: &str = "farcall_thread_address";
/// The name of the function in the first word of a dynamic thread-local's descriptor, in front of these two words. It takes
/// the descriptor's address in `%rax` (`x0` on AArch64), and returns the thread-local's offset from the thread pointer there. All
/// other registers stay as they are.
pub(crate) const THREAD_DESCRIPTOR: &str = "farcall_thread_descriptor";

/// The name of the function to which the entry of a page of stubs jumps (see [`StubPage`](crate::link::StubPage)). It
/// gets a handler's tag and the return address of a trampoline there. The function calls the handler with
/// the trampoline's return address. It continues at the address that the handler returns, with all registers as they were. If
/// the handler fails, the call is unwound.
pub(crate) const LAZY_RESOLVER: &str = "farcall_lazy_resolver";

/// A region to initialize: the number of its [`AllocGroup`] ([`prot_number`] for a region that stays), its first address, its
/// size in bytes. The content is in the slab already.
pub(crate) type Region = (u8, ExecutorAddr, u64);
/// The same with its content, which is followed by zeros up to its size: LLVM's `SPSSegFinalizeRequest`.
pub(crate) type Segment = (AllocGroup, ExecutorAddr, u64, Bytes);
/// The same without its content: LLVM's `SPSSharedMemorySegFinalizeRequest`.
pub(crate) type NamedSegment = (AllocGroup, ExecutorAddr, u64);
/// A function that takes bytes, and the bytes: an allocation action. The null address is no action.
pub(crate) type Action = (ExecutorAddr, Bytes);

/// Where linked code has to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Placement {
    /// Next to the shared libraries, so that 32-bit displacements reach them.
    #[default]
    Near,
    /// Below 2 GiB, so that 32 bits hold every address.
    Low,
}

/// A symbol to look up: its name, whether it must exist, and whether it is *narrow*. A field of less than 64 bits holds the
/// address of a narrow symbol, or the distance to it.
pub(crate) type Wanted = (String, bool, bool);
/// A symbol's address, and for a narrow symbol whether it is a function.
pub(crate) type Found = (ExecutorAddr, bool);

/// A symbol as LLVM describes it: address, flags, and flags of the target.
pub(crate) type SymbolDef = (ExecutorAddr, u8, u8);

/// The [hashes](name_hashes) of names that shared libraries may define or be bound to. True if there are other libraries than those of
/// any process: these have to find a program's data.
pub(crate) type LibraryNames = (Vec<u32>, bool);

remote! {
    /// Reserves a slab striped by protection, from one descriptor for each stripe. The descriptors were sent over the control
    /// socket before. Takes the placement of the slab, and returns its first address.
    MemoryReserve = "farcall_memory_reserve": (ExecutorAddr, Placement) => ExecutorAddr;
    /// Runs the finalize actions of new regions, in order; their dealloc actions are kept. Returns the lowest address,
    /// by which the regions are deinitialized later.
    MemoryInitialize = "farcall_memory_initialize":
        (ExecutorAddr, Vec<Region>, Vec<(Action, Action)>) => ExecutorAddr;
    /// Runs the dealloc actions of what was initialized under each address, last first.
    MemoryDeinitialize = "farcall_memory_deinitialize":
        (ExecutorAddr, Vec<ExecutorAddr>) => ();
    /// Gives slabs back, and runs the dealloc actions of all regions that are still initialized in them.
    MemoryRelease = "farcall_memory_release":
        (ExecutorAddr, Vec<ExecutorAddr>) => ();

    /// Undoes what a debugger has written to a range of code: it shows what the controller stores there. Only for executors whose
    /// argument has [`DEBUGGABLE`].
    MemoryRefresh = "farcall_memory_refresh": (ExecutorAddr, AddrRange) => ();

    /// Attaches a region, whose descriptor was sent over the control socket before. Takes the region's address in the controller,
    /// and returns the one in the executor, which is the same unless that was taken.
    RegionAttach = "farcall_region_attach": (ExecutorAddr, ExecutorAddr) => ExecutorAddr;
    /// Unmaps a region, by its address in the controller.
    RegionDetach = "farcall_region_detach": (ExecutorAddr, ExecutorAddr) => ();

    /// Reserves a private slab of this size in bytes, for regions that are initialized with the content in the request. No bytes
    /// have the null address. This one and the next five are LLVM's, with LLVM's results: a failure in them is no failure of the call.
    NativeReserve = "orc_rt_ci_sps_SimpleNativeMemoryMap_reserve":
        (ExecutorAddr, u64) => Expected<ExecutorAddr>;
    /// As [`MemoryInitialize`], with the content of the regions. Sizes are rounded up to pages, and empty regions are left out.
    NativeInitialize = "orc_rt_ci_sps_SimpleNativeMemoryMap_initialize":
        (ExecutorAddr, Vec<Segment>, Vec<(Action, Action)>) => Expected<ExecutorAddr>;
    /// As [`MemoryDeinitialize`].
    NativeDeinitialize = "orc_rt_ci_sps_SimpleNativeMemoryMap_deinitializeMultiple":
        (ExecutorAddr, Vec<ExecutorAddr>) => Status;
    /// As [`MemoryRelease`].
    NativeRelease = "orc_rt_ci_sps_SimpleNativeMemoryMap_releaseMultiple":
        (ExecutorAddr, Vec<ExecutorAddr>) => Status;
    /// As [`NativeDeinitialize`], of one.
    NativeDeinitializeOne = "orc_rt_SimpleNativeMemoryMap_deinitialize_sps_wrapper":
        (ExecutorAddr, ExecutorAddr) => Status;
    /// As [`NativeRelease`], of one.
    NativeReleaseOne = "orc_rt_SimpleNativeMemoryMap_release_sps_wrapper":
        (ExecutorAddr, ExecutorAddr) => Status;

    /// Reserves a slab of this size in bytes in a file of the shared-memory file system. Returns the slab's first address and the
    /// file's name. A controller on this machine opens the file by that name and removes the name. It stores content through its
    /// own mapping. This one and the next are LLVM 22's; [`NativeDeinitialize`] and [`NativeRelease`] undo them.
    NamedReserve = "__llvm_orc_ExecutorSharedMemoryMapperService_Reserve":
        (ExecutorAddr, u64) => Expected<(ExecutorAddr, String)>;
    /// As [`NativeInitialize`], of regions in the slab that starts at the second address. The content is there already.
    NamedInitialize = "__llvm_orc_ExecutorSharedMemoryMapperService_Initialize":
        (ExecutorAddr, ExecutorAddr, Vec<NamedSegment>, Vec<(Action, Action)>) => Expected<ExecutorAddr>;

    /// Writes words at their addresses. This one and the next twelve are LLVM's. An address that cannot be read or written
    /// fails the call; the words before it are done.
    WriteU8s = "orc_rt_ci_sps_mem_write_uint8s": (Vec<(ExecutorAddr, u8)>,) => ();
    /// The same for 16 bits.
    WriteU16s = "orc_rt_ci_sps_mem_write_uint16s": (Vec<(ExecutorAddr, u16)>,) => ();
    /// The same for 32 bits.
    WriteU32s = "orc_rt_ci_sps_mem_write_uint32s": (Vec<(ExecutorAddr, u32)>,) => ();
    /// The same for 64 bits.
    WriteU64s = "orc_rt_ci_sps_mem_write_uint64s": (Vec<(ExecutorAddr, u64)>,) => ();
    /// The same for pointers.
    WritePointers = "orc_rt_ci_sps_mem_write_pointers": (Vec<(ExecutorAddr, ExecutorAddr)>,) => ();
    /// The same for bytes.
    WriteBuffers = "orc_rt_ci_sps_mem_write_buffers": (Vec<(ExecutorAddr, Bytes)>,) => ();
    /// Reads words.
    ReadU8s = "orc_rt_ci_sps_mem_read_uint8s": (Vec<ExecutorAddr>,) => Vec<u8>;
    /// The same for 16 bits.
    ReadU16s = "orc_rt_ci_sps_mem_read_uint16s": (Vec<ExecutorAddr>,) => Vec<u16>;
    /// The same for 32 bits.
    ReadU32s = "orc_rt_ci_sps_mem_read_uint32s": (Vec<ExecutorAddr>,) => Vec<u32>;
    /// The same for 64 bits.
    ReadU64s = "orc_rt_ci_sps_mem_read_uint64s": (Vec<ExecutorAddr>,) => Vec<u64>;
    /// The same for pointers.
    ReadPointers = "orc_rt_ci_sps_mem_read_pointers": (Vec<ExecutorAddr>,) => Vec<ExecutorAddr>;
    /// The same for ranges of bytes.
    ReadBuffers = "orc_rt_ci_sps_mem_read_buffers": (Vec<AddrRange>,) => Vec<Bytes>;
    /// The same for strings that a zero byte ends, without it.
    ReadStrings = "orc_rt_ci_sps_mem_read_strings": (Vec<ExecutorAddr>,) => Vec<Bytes>;

    /// Reads arrays of pointers to strings, each with that number of pointers. The library of a binding has said them: the executor does
    /// not look whether they can be read.
    /// A null array has no entries.
    ReadTextArrays = "farcall_read_text_arrays": (Vec<ExecutorAddr>, u64) => Vec<Option<Bytes>>;

    /// Has a copy keep its first state. If the argument is true, it compares its memory when it is reset; otherwise the kernel says what
    /// was written. Returns why it does not keep the state.
    CopyKeep = "farcall_copy_keep": (bool,) => Option<String>;
    /// Puts a copy back in the state that it keeps. Returns why it does not do that.
    CopyReset = "farcall_copy_reset": () => Option<String>;

    /// What the process is: target triple, page size, and the features of its processor as LLVM lists them, "+avx,+avx2".
    ProcessInfo = "farcall_process_info": () => (String, u64, String);

    /// Opens shared libraries by file name, then looks symbols up in the whole process, for code of this placement. For
    /// low code, narrow variables of a known size are moved below 2 GiB first. The answer has one entry for each symbol,
    /// in order; a missing symbol has none.
    ///
    /// The last list is there for a program whose names come before those of libraries: the hashes of its names. The libraries'
    /// constructors wait until it begins, and the answer has the names that libraries may have, too.
    DylibLookup = "farcall_dylib_lookup":
        (Vec<String>, Placement, Vec<Wanted>, Option<Vec<u32>>)
            => (Vec<Option<Found>>, Option<LibraryNames>);

    /// Opens shared libraries by file name, and looks a symbol up in each of them with its dependencies, until one has it.
    DylibFind = "farcall_dylib_find": (Vec<String>, String) => Option<ExecutorAddr>;
    /// Opens a shared library that libraries need: the names that a program defines, whose addresses do not count yet.
    ProgramAnnounce = "farcall_program_announce": (Bytes,) => ();
    /// Action: binds the shared libraries to a program's names, as the dynamic linker does for a native program. The first
    /// range, in memory of the link, has a shared library without contents whose symbols are the names. The others are the
    /// program's constants and its data. The number counts the bytes of the data that may not be zero; it is there if the program
    /// calls `madvise`.
    NamesPrecede = "farcall_names_precede":
        (AddrRange, AddrRange, AddrRange, Option<u64>) => ();
    /// Action: binds the libraries as they were before.
    NamesYield = "farcall_names_yield": (AddrRange,) => ();

    /// Action: makes an object file in memory known to debuggers; it has to stay there.
    DebuggerRegister = "orc_rt_ci_aa_sps_GDBJITRegistrar_register": (AddrRange,) => ();
    /// Action: takes it back.
    DebuggerDeregister = "orc_rt_ci_aa_sps_GDBJITRegistrar_deregister": (AddrRange,) => ();

    /// Maps the first page of a file as code, by its path, for the rest of the process's life: profilers record that.
    ProfileMark = "farcall_profile_mark": (Bytes,) => ();

    /// Makes the stack of the main thread executable, and those of threads that start later.
    StackExecutable = "farcall_stack_executable": () => ();

    /// Action: makes a section of call frame information known to the unwinder. A zero word ends it.
    FramesRegister = "farcall_frames_register": (AddrRange,) => ();
    /// Action: takes it back.
    FramesDeregister = "farcall_frames_deregister": (AddrRange,) => ();

    /// Action: keeps the names of the functions in a range of linked code, for code that asks for names. The second range, in
    /// memory of the link, has an ELF file with a symbol table relative to the start of the first one.
    NamesRegister = "farcall_names_register": (AddrRange, AddrRange) => ();
    /// Action: forgets them.
    NamesDeregister = "farcall_names_deregister": (AddrRange,) => ();

    /// Looks thread-locals up in the process's shared libraries. The answer has one entry for each, in order: its offset from
    /// the thread pointer in every thread; a missing one has none.
    ThreadLookup = "farcall_thread_lookup": (Vec<String>,) => Vec<Option<i64>>;

    /// Action: gives every thread, also those that are yet to start, the initial values of thread-locals. The arguments are
    /// the offset from the thread pointer, the range of the values, and the size in bytes with the zeros after them.
    ThreadInitialize = "farcall_thread_initialize": (i64, AddrRange, u64) => ();

    /// Action: makes a block of dynamic thread-locals known by a number below
    /// [`THREAD_MODULES_MAX`](crate::limits::THREAD_MODULES_MAX). The other arguments are the range of its initial values, and
    /// its size in bytes with the zeros after them. A thread gets its copy when it first asks.
    ThreadBlockRegister = "farcall_thread_block_register": (u32, AddrRange, u64) => ();
    /// Action: frees the copies of all threads, and forgets the block.
    ThreadBlockDeregister = "farcall_thread_block_deregister": (u32,) => ();

    /// Gives the session the process's room for thread-locals of linked code: the static reserve, and all numbers of blocks. Returns
    /// the offset of the reserve from the thread pointer, and its size in bytes; 0 when there is none. The session has the room
    /// until it ends. Only for controllers over a connection: others have it without a question.
    ThreadRoomClaim = "farcall_thread_room_claim": (ExecutorAddr,) => (i64, i64);

    /// Action: calls each of these functions for the address of an implementation, and stores that. Each pair is the address
    /// of the word and the function.
    IndirectResolve = "farcall_indirect_resolve": (Vec<(ExecutorAddr, ExecutorAddr)>,) => ();

    /// Makes code in this range visible that the controller has stored. Offered where instruction caches do not see stores by
    /// themselves; then the controller posts it ahead of the first call of the code.
    CodePublish = "farcall_code_publish": (AddrRange,) => ();

    /// Says that the next calls may be unwound, when a function cannot be compiled.
    LazyPrepare = "farcall_lazy_prepare": () => ();

    /// Action: makes a program known by its handle, the address of `__dso_handle`. The ranges are those of its code, of its
    /// initializers and of its finalizers (arrays of function addresses).
    ProgramRegister = "farcall_program_register":
        (ExecutorAddr, AddrRange, AddrRange, AddrRange) => ();
    /// Action: runs a program's exit handlers and finalizers, if it was initialized, and forgets it.
    ProgramDeregister = "farcall_program_deregister": (ExecutorAddr,) => ();
    /// Runs the initializers that have not run yet: program, arguments.
    ProgramInitialize = "farcall_program_initialize": (ExecutorAddr, Vec<Bytes>) => ();
    /// Runs `main`, after the initializers: program, address of main, arguments. Returns what main returns.
    ProgramMain = "farcall_program_main": (ExecutorAddr, ExecutorAddr, Vec<Bytes>) => i32;
    /// Starts a program as the kernel does, at code that ends the process itself: address, arguments. Does not return.
    ProgramStart = "farcall_program_start": (ExecutorAddr, Vec<Bytes>) => ();
    /// Runs a program as a process of its own would: initializers, `main`, exit handlers, finalizers; program, address of main,
    /// arguments. Returns what main returns. The program can be run again then, with its data as it was at first.
    ProgramRun = "farcall_program_run": (ExecutorAddr, ExecutorAddr, Vec<Bytes>) => i32;
    /// Ends the executor as `exit` ends a program. Does not return.
    ProcessExit = "farcall_process_exit": (i32,) => ();

    /// Runs a `main` with these arguments, without a name in front. This one and the next six are those of LLVM 22's
    /// executor that have no other name here, offered over a connection.
    RunAsMain = "__llvm_orc_bootstrap_run_as_main_wrapper": (ExecutorAddr, Vec<Bytes>) => i64;
    /// Runs an `int(void)`.
    RunAsVoid = "__llvm_orc_bootstrap_run_as_void_function_wrapper": (ExecutorAddr,) => i32;
    /// Runs an `int(int)`.
    RunAsInt = "__llvm_orc_bootstrap_run_as_int_function_wrapper": (ExecutorAddr, i32) => i32;
    /// Opens a shared library for the rest of the process's life; the empty path is the process itself. Every handle stands
    /// for all that is open.
    DylibOpen = "__llvm_orc_SimpleExecutorDylibManager_open_wrapper":
        (ExecutorAddr, String, u64) => Expected<ExecutorAddr>;
    /// Looks symbols up: name, and whether it must exist. A missing one has no entry if it must, address 0 otherwise.
    DylibResolve = "__llvm_orc_SimpleExecutorDylibManager_resolve_wrapper":
        (ExecutorAddr, Vec<(String, bool)>) => Expected<Vec<Option<SymbolDef>>>;
    /// Opens a shared library until the session is over; only its handle finds its symbols. The empty path is the process
    /// itself, which stays.
    NativeLoad = "orc_rt_ci_sps_NativeDylibManager_load":
        (ExecutorAddr, String) => Expected<ExecutorAddr>;
    /// Looks symbols up by the handle: name, and whether it must exist. As [`DylibResolve`], without flags.
    NativeLookup = "orc_rt_ci_sps_NativeDylibManager_lookup":
        (ExecutorAddr, ExecutorAddr, Vec<(String, bool)>) => Expected<Vec<Option<ExecutorAddr>>>;
    /// Looks names up among the symbols that a host's session offers: name, and whether it must exist. Only such a session has
    /// this function: it is called with the session.
    SessionLookup = "orc_rt_ci_sps_Session_lookupInstanceSymbols":
        (Vec<(String, bool)>,) => Vec<Option<ExecutorAddr>>;
    /// Runs a `void(void)`.
    CallVoidVoid = "orc_rt_ci_sps_call_void_void": (ExecutorAddr,) => ();
    /// Action: as [`FramesRegister`].
    LlvmFramesRegister = "llvm_orc_registerEHFrameAllocAction": (AddrRange,) => Status;
    /// Action: as [`FramesDeregister`].
    LlvmFramesDeregister = "llvm_orc_deregisterEHFrameAllocAction": (AddrRange,) => Status;
}

/// What the executor says of itself, first thing: target triple, page size, named addresses and named numbers.
pub(crate) type Setup = (String, u64, Vec<(String, ExecutorAddr)>, Vec<(String, i64)>);

/// The same over a connection, as LLVM has it: target triple, page size, named bytes, and named addresses.
pub(crate) type ConnectionSetup = (String, u64, Vec<(String, Bytes)>, Vec<(String, ExecutorAddr)>);

/// The number of a protection on the wire: bits for read, write, execute, as LLVM has them.
pub(crate) const fn prot_number(prot: Prot) -> u8 {
    match prot {
        Prot::Code => 1 | 4,
        Prot::Constants => 1,
        Prot::Data => 1 | 2,
    }
}

impl Placement {
    /// The placement of a slab and the slab's index as one number.
    pub(crate) fn with_index(self, index: usize) -> u64 {
        (index as u64) << 1 | self as u64
    }

    /// The placement and the index that go as this number.
    pub(crate) fn from_number(number: u64) -> (Self, usize) {
        let placement = if number & 1 == Self::Low as u64 { Self::Low } else { Self::Near };
        (placement, usize::try_from(number >> 1).unwrap_or(usize::MAX))
    }
}

impl Encode for Placement {
    fn encoded_bytes(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (*self == Placement::Low).encode(out);
    }
}

impl Decode<'_> for Placement {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(if bool::decode(reader)? { Placement::Low } else { Placement::Near })
    }
}
