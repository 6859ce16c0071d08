# Libraries that decode images (ONNX's ImageDecoder): found here, loaded by their runtime names when the first image of the
# format comes. Without one of them the format is refused by name; JPEG falls back to stb_image.
find_package(PkgConfig QUIET)

# smelt_image_library(NAME HEADER LIBRARY [PKG]): image_NAME.cc sees SMELT_IMAGE_NAME, the runtime name of the library.
function(smelt_image_library name header library)
  if(PkgConfig_FOUND AND ARGN)
    pkg_check_modules(SMELT_PKG_${name} QUIET ${ARGN})
  endif()
  find_path(SMELT_${name}_INCLUDE ${header} HINTS ${SMELT_PKG_${name}_INCLUDE_DIRS})
  find_library(SMELT_${name}_LIBRARY ${library} HINTS ${SMELT_PKG_${name}_LIBRARY_DIRS})
  if(NOT SMELT_${name}_INCLUDE OR NOT SMELT_${name}_LIBRARY OR NOT CMAKE_OBJDUMP)
    message(STATUS "Images: no ${library}")
    return()
  endif()
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${SMELT_${name}_LIBRARY} OUTPUT_VARIABLE dump ERROR_QUIET)
  if(dump MATCHES "SONAME +([^ \n]+)")
    string(TOLOWER ${name} file)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/ops/signal/image_${file}.cc PROPERTIES
      COMPILE_DEFINITIONS SMELT_IMAGE_${name}="${CMAKE_MATCH_1}")
    if(NOT SMELT_${name}_INCLUDE IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/ops/signal/image_${file}.cc PROPERTY INCLUDE_DIRECTORIES ${SMELT_${name}_INCLUDE})
    endif()
  endif()
endfunction()

smelt_image_library(JPEG jpeglib.h jpeg libjpeg)
smelt_image_library(WEBP webp/decode.h webp libwebp)
smelt_image_library(TIFF tiffio.h tiff libtiff-4)
smelt_image_library(JPEG2000 openjpeg.h openjp2 libopenjp2)
