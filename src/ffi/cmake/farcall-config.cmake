# find_package(farcall) defines the target farcall::farcall: the shared library, or the static one if only that is installed.
# This file lies in PREFIX/share/cmake/farcall.
get_filename_component(farcall_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET farcall::farcall)
  find_path(farcall_INCLUDE_DIR farcall.h PATHS "${farcall_PREFIX}/include" NO_DEFAULT_PATH)
  find_library(farcall_LIBRARY NAMES farcall
    PATHS "${farcall_PREFIX}/lib/${CMAKE_LIBRARY_ARCHITECTURE}" "${farcall_PREFIX}/lib" "${farcall_PREFIX}/lib64"
    NO_DEFAULT_PATH)
  if(NOT farcall_INCLUDE_DIR OR NOT farcall_LIBRARY)
    set(farcall_FOUND FALSE)
    set(farcall_NOT_FOUND_MESSAGE "farcall.h or libfarcall is missing in ${farcall_PREFIX}: run cargo cinstall again")
    return()
  endif()

  find_package(Threads REQUIRED)
  add_library(farcall::farcall UNKNOWN IMPORTED)
  set_target_properties(farcall::farcall PROPERTIES
    IMPORTED_LOCATION "${farcall_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${farcall_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()
