# Every schemas/*.fbs becomes NAME_generated.h in the build tree.
find_package(flatbuffers CONFIG QUIET)
find_program(SMELT_FLATC flatc REQUIRED)
file(GLOB SMELT_SCHEMAS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schemas/*.fbs)
set(SMELT_SCHEMA_DIR ${CMAKE_BINARY_DIR}/schemas)
set(SMELT_SCHEMA_HEADERS)
foreach(schema ${SMELT_SCHEMAS})
  get_filename_component(name ${schema} NAME_WE)
  set(header ${SMELT_SCHEMA_DIR}/${name}_generated.h)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${SMELT_FLATC} --cpp --cpp-std c++17 --scoped-enums -I ${PROJECT_SOURCE_DIR}/schemas -o ${SMELT_SCHEMA_DIR} ${schema}
    DEPENDS ${SMELT_SCHEMAS}
    COMMENT "Schema ${name}")
  list(APPEND SMELT_SCHEMA_HEADERS ${header})
endforeach()
# Binary schemas of operators' attributes, for their names and defaults: binary/NAME_bfbs_generated.h.
foreach(name tflite xnnpack_graph)
  set(header ${SMELT_SCHEMA_DIR}/binary/${name}_bfbs_generated.h)
  add_custom_command(
    OUTPUT ${header}
    COMMAND ${SMELT_FLATC} --cpp --scoped-enums -b --schema --bfbs-gen-embed -I ${PROJECT_SOURCE_DIR}/schemas
      -o ${SMELT_SCHEMA_DIR}/binary ${PROJECT_SOURCE_DIR}/schemas/${name}.fbs
    DEPENDS ${SMELT_SCHEMAS}
    COMMENT "Binary schema ${name}")
  list(APPEND SMELT_SCHEMA_HEADERS ${header})
endforeach()
add_custom_target(smelt_schemas DEPENDS ${SMELT_SCHEMA_HEADERS})
