// @generated
//! `Png` runs the library's functions in a process of their own. Written by `farcall bind png.h -l png --hints png.toml`: change the header or the hints, and not this file.
//!
#![allow(warnings, reason = "the names are the header's")]
pub use library::Png;
mod library {
    use ::farcall::bind::LibrarySource;
    const SOURCES: &[LibrarySource<'_>] = &[LibrarySource::Shared("libpng16.so.16")];
    /// The library in a process of its own. Cheap to clone; the last clone ends the process.
    #[derive(Debug, Clone)]
    pub struct Png {
        sandbox: ::farcall::bind::Sandbox,
        functions: ::std::sync::Arc<FunctionsOfTheLibrary>,
    }
    #[derive(Debug)]
    struct FunctionsOfTheLibrary {
        function_png_image_begin_read_from_memory: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, ::farcall::ExecutorAddr, u64) -> i32,
        >,
        function_png_image_finish_read: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                i32,
                ::farcall::ExecutorAddr,
            ) -> i32,
        >,
        function_png_image_free: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
    }
    impl Png {
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
                function_png_image_begin_read_from_memory: sandbox
                    .function("png_image_begin_read_from_memory"),
                function_png_image_finish_read: sandbox
                    .function("png_image_finish_read"),
                function_png_image_free: sandbox.function("png_image_free"),
            });
            Ok(Self { sandbox, functions })
        }
        /// The process, its memory, and its objects by address.
        pub fn sandbox(&self) -> &::farcall::bind::Sandbox {
            &self.sandbox
        }
        /// `int png_image_begin_read_from_memory(png_imagep image, png_const_voidp memory, size_t size)`
        pub fn png_image_begin_read_from_memory(
            &self,
            image: &::farcall::bind::Handle<super::png_image>,
            memory: ::farcall::ExecutorAddr,
            size: u64,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(image)?;
            let result = call
                .run(
                    &self.functions.function_png_image_begin_read_from_memory,
                    (lent_0, memory, size),
                )?;
            Ok(result)
        }
        /// `int png_image_finish_read(png_imagep image, png_const_colorp background, void *buffer, png_int_32 row_stride, void *colormap)`
        pub fn png_image_finish_read<'a>(
            &self,
            image: &::farcall::bind::Handle<super::png_image>,
            background: impl ::core::convert::Into<Option<&'a super::png_color_struct>>,
            buffer: ::farcall::ExecutorAddr,
            row_stride: i32,
            colormap: ::farcall::ExecutorAddr,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(image)?;
            let lent_1 = call
                .structure_or_null::<super::png_color_struct>(background.into())?;
            let result = call
                .run(
                    &self.functions.function_png_image_finish_read,
                    (lent_0, lent_1, buffer, row_stride, colormap),
                )?;
            Ok(result)
        }
        /// `void png_image_free(png_imagep image)`
        pub fn png_image_free(
            &self,
            image: &::farcall::bind::Handle<super::png_image>,
        ) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(image)?;
            let result = call.run(&self.functions.function_png_image_free, (lent_0,))?;
            Ok(())
        }
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct png_color_struct {
    pub red: u8,
    pub green: u8,
    pub blue: u8,
}
impl ::farcall::bind::Structure for png_color_struct {
    const BYTES: usize = 3usize;
    const ALIGNMENT: usize = 1usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.red, &mut to[0usize..]);
        ::farcall::bind::Structure::write(&self.green, &mut to[1usize..]);
        ::farcall::bind::Structure::write(&self.blue, &mut to[2usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            red: ::farcall::bind::Structure::read(&from[0usize..]),
            green: ::farcall::bind::Structure::read(&from[1usize..]),
            blue: ::farcall::bind::Structure::read(&from[2usize..]),
        }
    }
}
impl ::core::default::Default for png_color_struct {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 3usize])
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct png_image {
    pub opaque: ::farcall::ExecutorAddr,
    pub version: u32,
    pub width: u32,
    pub height: u32,
    pub format: u32,
    pub flags: u32,
    pub colormap_entries: u32,
    pub warning_or_error: u32,
    pub message: [i8; 64usize],
}
impl ::farcall::bind::Structure for png_image {
    const BYTES: usize = 104usize;
    const ALIGNMENT: usize = 8usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.opaque, &mut to[0usize..]);
        ::farcall::bind::Structure::write(&self.version, &mut to[8usize..]);
        ::farcall::bind::Structure::write(&self.width, &mut to[12usize..]);
        ::farcall::bind::Structure::write(&self.height, &mut to[16usize..]);
        ::farcall::bind::Structure::write(&self.format, &mut to[20usize..]);
        ::farcall::bind::Structure::write(&self.flags, &mut to[24usize..]);
        ::farcall::bind::Structure::write(&self.colormap_entries, &mut to[28usize..]);
        ::farcall::bind::Structure::write(&self.warning_or_error, &mut to[32usize..]);
        ::farcall::bind::Structure::write(&self.message, &mut to[36usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            opaque: ::farcall::bind::Structure::read(&from[0usize..]),
            version: ::farcall::bind::Structure::read(&from[8usize..]),
            width: ::farcall::bind::Structure::read(&from[12usize..]),
            height: ::farcall::bind::Structure::read(&from[16usize..]),
            format: ::farcall::bind::Structure::read(&from[20usize..]),
            flags: ::farcall::bind::Structure::read(&from[24usize..]),
            colormap_entries: ::farcall::bind::Structure::read(&from[28usize..]),
            warning_or_error: ::farcall::bind::Structure::read(&from[32usize..]),
            message: ::farcall::bind::Structure::read(&from[36usize..]),
        }
    }
}
impl ::core::default::Default for png_image {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 104usize])
    }
}
pub const PNG_LIBPNG_VER_STRING: &::core::ffi::CStr = c"1.6.39";
pub const PNG_IMAGE_VERSION: i32 = 1;
pub const PNG_IMAGE_WARNING: i32 = 1;
pub const PNG_IMAGE_ERROR: i32 = 2;
pub const PNG_FORMAT_FLAG_ALPHA: u32 = 1;
pub const PNG_FORMAT_FLAG_COLOR: u32 = 2;
pub const PNG_FORMAT_FLAG_LINEAR: u32 = 4;
pub const PNG_FORMAT_FLAG_COLORMAP: u32 = 8;
pub const PNG_FORMAT_FLAG_BGR: u32 = 16;
pub const PNG_FORMAT_FLAG_AFIRST: u32 = 32;
pub const PNG_FORMAT_FLAG_ASSOCIATED_ALPHA: u32 = 64;
pub const PNG_FORMAT_GRAY: i32 = 0;
pub const PNG_FORMAT_GA: u32 = 1;
pub const PNG_FORMAT_AG: u32 = 33;
pub const PNG_FORMAT_RGB: u32 = 2;
pub const PNG_FORMAT_BGR: u32 = 18;
pub const PNG_FORMAT_RGBA: u32 = 3;
pub const PNG_FORMAT_ARGB: u32 = 35;
pub const PNG_FORMAT_BGRA: u32 = 19;
pub const PNG_FORMAT_ABGR: u32 = 51;
pub const PNG_FORMAT_LINEAR_Y: u32 = 4;
pub const PNG_FORMAT_LINEAR_Y_ALPHA: u32 = 5;
pub const PNG_FORMAT_LINEAR_RGB: u32 = 6;
pub const PNG_FORMAT_LINEAR_RGB_ALPHA: u32 = 7;
pub const PNG_FORMAT_RGB_COLORMAP: u32 = 10;
pub const PNG_FORMAT_BGR_COLORMAP: u32 = 26;
pub const PNG_FORMAT_RGBA_COLORMAP: u32 = 11;
pub const PNG_FORMAT_ARGB_COLORMAP: u32 = 43;
pub const PNG_FORMAT_BGRA_COLORMAP: u32 = 27;
pub const PNG_FORMAT_ABGR_COLORMAP: u32 = 59;
pub const PNG_IMAGE_FLAG_COLORSPACE_NOT_sRGB: i32 = 1;
pub const PNG_IMAGE_FLAG_FAST: i32 = 2;
pub const PNG_IMAGE_FLAG_16BIT_sRGB: i32 = 4;
