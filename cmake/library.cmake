find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_path(SMELT_PTHREADPOOL_INCLUDE pthreadpool.h REQUIRED)
find_library(SMELT_PTHREADPOOL pthreadpool REQUIRED)

file(GLOB_RECURSE SMELT_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cc)
list(FILTER SMELT_SOURCES EXCLUDE REGEX "/src/(cli|onnxifi)/|_test\\.cc$")

add_library(smelt_objects OBJECT ${SMELT_SOURCES} ${SMELT_SHADER_DIR}/shaders.s)
add_dependencies(smelt_objects smelt_schemas)
target_include_directories(smelt_objects PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_include_directories(smelt_objects SYSTEM PUBLIC ${SMELT_SCHEMA_DIR} ${SMELT_PTHREADPOOL_INCLUDE} ${SMELT_VOLK_INCLUDE})
# Header-only use of flatbuffers: its locale helper lives in the compiled library.
target_compile_definitions(smelt_objects PRIVATE SMELT_BUILDING_LIBRARY FLATBUFFERS_LOCALE_INDEPENDENT=0)
target_link_libraries(smelt_objects PUBLIC smelt_flags fmt::fmt-header-only Threads::Threads)

include(cmake/images.cmake)

# Public functions and classes are marked in the headers; all else stays inside.
# libsmelt.so exports the public headers only; libsmelt.a serves the command, the tests and static users.
add_library(smelt_shared SHARED $<TARGET_OBJECTS:smelt_objects>)
add_library(smelt_static STATIC $<TARGET_OBJECTS:smelt_objects>)
foreach(lib smelt_shared smelt_static)
  target_link_libraries(${lib} PRIVATE ${SMELT_PTHREADPOOL} Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${lib} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${lib} PUBLIC cxx_std_20)
  set_target_properties(${lib} PROPERTIES OUTPUT_NAME smelt)
endforeach()
set_target_properties(smelt_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
