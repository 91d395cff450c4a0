//! Names under which other versions of LLVM's runtime offer the same functions and objects.
//!
//! Invariant: an executor that offers a function under one of its names offers it under all of them.

use super::{
    DebuggerRegister, FramesDeregister, FramesRegister, NativeDeinitialize, NativeDeinitializeOne,
    NativeInitialize, NativeRelease, NativeReserve, ReadBuffers, ReadPointers, ReadStrings,
    ReadU8s, ReadU16s, ReadU32s, ReadU64s, Remote, SESSION_INSTANCE, WriteBuffers, WritePointers,
    WriteU8s, WriteU16s, WriteU32s, WriteU64s,
};

/// The name of the contract and its others.
pub(crate) const OTHER_NAMES: &[(&str, &[&str])] = &[
    (
        SESSION_INSTANCE,
        &[
            "orc_rt_ci_SimpleNativeMemoryMap_Instance",
            "orc_rt_SimpleNativeMemoryMap_Instance",
            "__llvm_orc_SimpleExecutorMemoryManager_Instance",
            "__llvm_orc_ExecutorSharedMemoryMapperService_Instance",
        ],
    ),
    (
        NativeReserve::NAME,
        &[
            "orc_rt_SimpleNativeMemoryMap_reserve_sps_wrapper",
            "__llvm_orc_SimpleExecutorMemoryManager_reserve_wrapper",
        ],
    ),
    (
        NativeInitialize::NAME,
        &[
            "orc_rt_SimpleNativeMemoryMap_initialize_sps_wrapper",
            "orc_rt_SimpleNativeMemoryMap_finalize_sps_wrapper",
            "__llvm_orc_SimpleExecutorMemoryManager_initialize_wrapper",
        ],
    ),
    (
        NativeDeinitialize::NAME,
        &[
            "orc_rt_SimpleNativeMemoryMap_deinitializeMultiple_sps_wrapper",
            "orc_rt_SimpleNativeMemoryMap_deallocateMultiple_sps_wrapper",
            "__llvm_orc_SimpleExecutorMemoryManager_deinitialize_wrapper",
            "__llvm_orc_ExecutorSharedMemoryMapperService_Deinitialize",
        ],
    ),
    (
        NativeRelease::NAME,
        &[
            "orc_rt_SimpleNativeMemoryMap_releaseMultiple_sps_wrapper",
            "__llvm_orc_SimpleExecutorMemoryManager_release_wrapper",
            "__llvm_orc_ExecutorSharedMemoryMapperService_Release",
        ],
    ),
    (NativeDeinitializeOne::NAME, &["orc_rt_SimpleNativeMemoryMap_deallocate_sps_wrapper"]),
    // Its second argument, whether to tell the debugger at once, is not read: it is told.
    (DebuggerRegister::NAME, &["llvm_orc_registerJITLoaderGDBAllocAction"]),
    (FramesRegister::NAME, &["orc_rt_ci_aa_sps_DWARFEHFrameRegistrar_registerSection"]),
    (FramesDeregister::NAME, &["orc_rt_ci_aa_sps_DWARFEHFrameRegistrar_deregisterSection"]),
    (WriteU8s::NAME, &["__llvm_orc_bootstrap_mem_write_uint8s_wrapper"]),
    (WriteU16s::NAME, &["__llvm_orc_bootstrap_mem_write_uint16s_wrapper"]),
    (WriteU32s::NAME, &["__llvm_orc_bootstrap_mem_write_uint32s_wrapper"]),
    (WriteU64s::NAME, &["__llvm_orc_bootstrap_mem_write_uint64s_wrapper"]),
    (WritePointers::NAME, &["__llvm_orc_bootstrap_mem_write_pointers_wrapper"]),
    (WriteBuffers::NAME, &["__llvm_orc_bootstrap_mem_write_buffers_wrapper"]),
    (ReadU8s::NAME, &["__llvm_orc_bootstrap_mem_read_uint8s_wrapper"]),
    (ReadU16s::NAME, &["__llvm_orc_bootstrap_mem_read_uint16s_wrapper"]),
    (ReadU32s::NAME, &["__llvm_orc_bootstrap_mem_read_uint32s_wrapper"]),
    (ReadU64s::NAME, &["__llvm_orc_bootstrap_mem_read_uint64s_wrapper"]),
    (ReadPointers::NAME, &["__llvm_orc_bootstrap_mem_read_pointers_wrapper"]),
    (ReadBuffers::NAME, &["__llvm_orc_bootstrap_mem_read_buffers_wrapper"]),
    (ReadStrings::NAME, &["__llvm_orc_bootstrap_mem_read_strings_wrapper"]),
];
