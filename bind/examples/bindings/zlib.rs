// @generated
//! `Zlib` runs the library's functions in a process of their own. Written by `farcall bind zlib.h -l z --hints zlib.toml`: change the header or the hints, and not this file.
//!
#![allow(warnings, reason = "the names are the header's")]
pub use library::Zlib;
mod library {
    use ::farcall::bind::LibrarySource;
    const SOURCES: &[LibrarySource<'_>] = &[LibrarySource::Shared("libz.so.1")];
    /// The library in a process of its own. Cheap to clone; the last clone ends the process.
    #[derive(Debug, Clone)]
    pub struct Zlib {
        sandbox: ::farcall::bind::Sandbox,
        functions: ::std::sync::Arc<FunctionsOfTheLibrary>,
    }
    #[derive(Debug)]
    struct FunctionsOfTheLibrary {
        function_inflate: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i32,
        >,
        function_inflateEnd: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_inflateReset: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_compress: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                u64,
            ) -> i32,
        >,
        function_compress2: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                u64,
                i32,
            ) -> i32,
        >,
        function_compressBound: ::farcall::controller::Function<
            extern "C" fn(u64) -> u64,
        >,
        function_uncompress: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                u64,
            ) -> i32,
        >,
        function_crc32: ::farcall::controller::Function<
            extern "C" fn(u64, ::farcall::ExecutorAddr, u32) -> u64,
        >,
        function_inflateInit_: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, ::farcall::ExecutorAddr, i32) -> i32,
        >,
    }
    impl Zlib {
        /// Starts the process with these rights and limits.
        pub fn start(options: ::farcall::bind::Options) -> ::farcall::Result<Self> {
            Self::start_with(SOURCES, options)
        }
        /// Starts the process with the library from another place.
        pub fn start_with(
            sources: &[LibrarySource<'_>],
            options: ::farcall::bind::Options,
        ) -> ::farcall::Result<Self> {
            let sandbox = ::farcall::bind::Sandbox::start(sources, options)?;
            let functions = ::std::sync::Arc::new(FunctionsOfTheLibrary {
                function_inflate: sandbox.function("inflate"),
                function_inflateEnd: sandbox.function("inflateEnd"),
                function_inflateReset: sandbox.function("inflateReset"),
                function_compress: sandbox.function("compress"),
                function_compress2: sandbox.function("compress2"),
                function_compressBound: sandbox.function("compressBound"),
                function_uncompress: sandbox.function("uncompress"),
                function_crc32: sandbox.function("crc32"),
                function_inflateInit_: sandbox.function("inflateInit_"),
            });
            Ok(Self { sandbox, functions })
        }
        /// The process, its memory, and its objects by address.
        pub fn sandbox(&self) -> &::farcall::bind::Sandbox {
            &self.sandbox
        }
        /// `int inflate(z_streamp strm, int flush)`
        pub fn inflate(
            &self,
            strm: &::farcall::bind::Handle<super::z_stream_s>,
            flush: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(strm)?;
            let result = call.run(&self.functions.function_inflate, (lent_0, flush))?;
            Ok(result)
        }
        /// `int inflateEnd(z_streamp strm)`
        pub fn inflateEnd(
            &self,
            strm: &::farcall::bind::Handle<super::z_stream_s>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(strm)?;
            let result = call.run(&self.functions.function_inflateEnd, (lent_0,))?;
            Ok(result)
        }
        /// `int inflateReset(z_streamp strm)`
        pub fn inflateReset(
            &self,
            strm: &::farcall::bind::Handle<super::z_stream_s>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(strm)?;
            let result = call.run(&self.functions.function_inflateReset, (lent_0,))?;
            Ok(result)
        }
        /// `int compress(Bytef *dest, uLongf *destLen, const Bytef *source, uLong sourceLen)`
        pub fn compress(
            &self,
            dest: &mut [u8],
            source: &[u8],
        ) -> ::farcall::Result<(i32, ::farcall::bind::Untrusted<usize>)> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.room_for(&*dest)?;
            let lent_1 = call.structure(&::farcall::bind::length::<u64>(dest.len())?)?;
            let lent_2 = call.numbers(&*source)?;
            let result = call
                .run(
                    &self.functions.function_compress,
                    (
                        lent_0.address(),
                        lent_1.address(),
                        lent_2.address(),
                        ::farcall::bind::length::<u64>(source.len())?,
                    ),
                )?;
            let count_0 = ::farcall::bind::count(call.number::<u64>(lent_1)?);
            call.fetch_numbers(lent_0, ::farcall::bind::first(dest, count_0))?;
            Ok((result, ::farcall::bind::Untrusted::new(count_0)))
        }
        /// `int compress2(Bytef *dest, uLongf *destLen, const Bytef *source, uLong sourceLen, int level)`
        pub fn compress2(
            &self,
            dest: &mut [u8],
            source: &[u8],
            level: i32,
        ) -> ::farcall::Result<(i32, ::farcall::bind::Untrusted<usize>)> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.room_for(&*dest)?;
            let lent_1 = call.structure(&::farcall::bind::length::<u64>(dest.len())?)?;
            let lent_2 = call.numbers(&*source)?;
            let result = call
                .run(
                    &self.functions.function_compress2,
                    (
                        lent_0.address(),
                        lent_1.address(),
                        lent_2.address(),
                        ::farcall::bind::length::<u64>(source.len())?,
                        level,
                    ),
                )?;
            let count_0 = ::farcall::bind::count(call.number::<u64>(lent_1)?);
            call.fetch_numbers(lent_0, ::farcall::bind::first(dest, count_0))?;
            Ok((result, ::farcall::bind::Untrusted::new(count_0)))
        }
        /// `uLong compressBound(uLong sourceLen)`
        pub fn compressBound(
            &self,
            sourceLen: u64,
        ) -> ::farcall::Result<::farcall::bind::Untrusted<u64>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_compressBound, (sourceLen,))?;
            let result = ::farcall::bind::Untrusted::new(result);
            Ok(result)
        }
        /// `int uncompress(Bytef *dest, uLongf *destLen, const Bytef *source, uLong sourceLen)`
        pub fn uncompress(
            &self,
            dest: &mut [u8],
            source: &[u8],
        ) -> ::farcall::Result<(i32, ::farcall::bind::Untrusted<usize>)> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.room_for(&*dest)?;
            let lent_1 = call.structure(&::farcall::bind::length::<u64>(dest.len())?)?;
            let lent_2 = call.numbers(&*source)?;
            let result = call
                .run(
                    &self.functions.function_uncompress,
                    (
                        lent_0.address(),
                        lent_1.address(),
                        lent_2.address(),
                        ::farcall::bind::length::<u64>(source.len())?,
                    ),
                )?;
            let count_0 = ::farcall::bind::count(call.number::<u64>(lent_1)?);
            call.fetch_numbers(lent_0, ::farcall::bind::first(dest, count_0))?;
            Ok((result, ::farcall::bind::Untrusted::new(count_0)))
        }
        /// `uLong crc32(uLong crc, const Bytef *buf, uInt len)`
        pub fn crc32(
            &self,
            crc: u64,
            buf: &[u8],
        ) -> ::farcall::Result<::farcall::bind::Untrusted<u64>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_1 = call.numbers(&*buf)?;
            let result = call
                .run(
                    &self.functions.function_crc32,
                    (crc, lent_1.address(), ::farcall::bind::length::<u32>(buf.len())?),
                )?;
            let result = ::farcall::bind::Untrusted::new(result);
            Ok(result)
        }
        /// `int inflateInit_(z_streamp strm, const char *version, int stream_size)`
        pub fn inflateInit_<'a>(
            &self,
            strm: &::farcall::bind::Handle<super::z_stream_s>,
            version: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            stream_size: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(strm)?;
            let lent_1 = call.text(version.into())?;
            let result = call
                .run(
                    &self.functions.function_inflateInit_,
                    (lent_0, lent_1, stream_size),
                )?;
            Ok(result)
        }
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct z_stream_s {
    pub next_in: ::farcall::ExecutorAddr,
    pub avail_in: u32,
    pub total_in: u64,
    pub next_out: ::farcall::ExecutorAddr,
    pub avail_out: u32,
    pub total_out: u64,
    pub msg: ::farcall::ExecutorAddr,
    pub state: ::farcall::ExecutorAddr,
    pub zalloc: ::farcall::ExecutorAddr,
    pub zfree: ::farcall::ExecutorAddr,
    pub opaque: ::farcall::ExecutorAddr,
    pub data_type: i32,
    pub adler: u64,
    pub reserved: u64,
}
impl ::farcall::bind::Structure for z_stream_s {
    const BYTES: usize = 112usize;
    const ALIGNMENT: usize = 8usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.next_in, &mut to[0usize..]);
        ::farcall::bind::Structure::write(&self.avail_in, &mut to[8usize..]);
        ::farcall::bind::Structure::write(&self.total_in, &mut to[16usize..]);
        ::farcall::bind::Structure::write(&self.next_out, &mut to[24usize..]);
        ::farcall::bind::Structure::write(&self.avail_out, &mut to[32usize..]);
        ::farcall::bind::Structure::write(&self.total_out, &mut to[40usize..]);
        ::farcall::bind::Structure::write(&self.msg, &mut to[48usize..]);
        ::farcall::bind::Structure::write(&self.state, &mut to[56usize..]);
        ::farcall::bind::Structure::write(&self.zalloc, &mut to[64usize..]);
        ::farcall::bind::Structure::write(&self.zfree, &mut to[72usize..]);
        ::farcall::bind::Structure::write(&self.opaque, &mut to[80usize..]);
        ::farcall::bind::Structure::write(&self.data_type, &mut to[88usize..]);
        ::farcall::bind::Structure::write(&self.adler, &mut to[96usize..]);
        ::farcall::bind::Structure::write(&self.reserved, &mut to[104usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            next_in: ::farcall::bind::Structure::read(&from[0usize..]),
            avail_in: ::farcall::bind::Structure::read(&from[8usize..]),
            total_in: ::farcall::bind::Structure::read(&from[16usize..]),
            next_out: ::farcall::bind::Structure::read(&from[24usize..]),
            avail_out: ::farcall::bind::Structure::read(&from[32usize..]),
            total_out: ::farcall::bind::Structure::read(&from[40usize..]),
            msg: ::farcall::bind::Structure::read(&from[48usize..]),
            state: ::farcall::bind::Structure::read(&from[56usize..]),
            zalloc: ::farcall::bind::Structure::read(&from[64usize..]),
            zfree: ::farcall::bind::Structure::read(&from[72usize..]),
            opaque: ::farcall::bind::Structure::read(&from[80usize..]),
            data_type: ::farcall::bind::Structure::read(&from[88usize..]),
            adler: ::farcall::bind::Structure::read(&from[96usize..]),
            reserved: ::farcall::bind::Structure::read(&from[104usize..]),
        }
    }
}
impl ::core::default::Default for z_stream_s {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 112usize])
    }
}
pub const ZLIB_VERSION: &::core::ffi::CStr = c"1.2.13";
pub const Z_NO_FLUSH: i32 = 0;
pub const Z_PARTIAL_FLUSH: i32 = 1;
pub const Z_SYNC_FLUSH: i32 = 2;
pub const Z_FULL_FLUSH: i32 = 3;
pub const Z_FINISH: i32 = 4;
pub const Z_BLOCK: i32 = 5;
pub const Z_TREES: i32 = 6;
pub const Z_OK: i32 = 0;
pub const Z_STREAM_END: i32 = 1;
pub const Z_NEED_DICT: i32 = 2;
pub const Z_ERRNO: i32 = -1;
pub const Z_STREAM_ERROR: i32 = -2;
pub const Z_DATA_ERROR: i32 = -3;
pub const Z_MEM_ERROR: i32 = -4;
pub const Z_BUF_ERROR: i32 = -5;
pub const Z_VERSION_ERROR: i32 = -6;
pub const Z_NO_COMPRESSION: i32 = 0;
pub const Z_BEST_SPEED: i32 = 1;
pub const Z_BEST_COMPRESSION: i32 = 9;
pub const Z_DEFAULT_COMPRESSION: i32 = -1;
pub const Z_FILTERED: i32 = 1;
pub const Z_HUFFMAN_ONLY: i32 = 2;
pub const Z_RLE: i32 = 3;
pub const Z_FIXED: i32 = 4;
pub const Z_DEFAULT_STRATEGY: i32 = 0;
pub const Z_BINARY: i32 = 0;
pub const Z_TEXT: i32 = 1;
pub const Z_ASCII: i32 = 1;
pub const Z_UNKNOWN: i32 = 2;
pub const Z_DEFLATED: i32 = 8;
pub const Z_NULL: i32 = 0;
