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
# Binary schemas of operators' attributes, for their names and defaults. TFLite's is read with every model; XNNPACK's is
# packed, since it is read where attributes are shown.
set(SMELT_BINARY_SCHEMA ${SMELT_FLATC} -b --schema -I ${PROJECT_SOURCE_DIR}/schemas -o ${SMELT_SCHEMA_DIR}/binary)
set(header ${SMELT_SCHEMA_DIR}/binary/tflite_bfbs_generated.h)
add_custom_command(OUTPUT ${header} DEPENDS ${SMELT_SCHEMAS} COMMENT "Binary schema tflite"
  COMMAND ${SMELT_BINARY_SCHEMA} --cpp --scoped-enums --bfbs-gen-embed ${PROJECT_SOURCE_DIR}/schemas/tflite.fbs)
list(APPEND SMELT_SCHEMA_HEADERS ${header})
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(SMELT_PACK_SCHEMA ${PROJECT_SOURCE_DIR}/cmake/pack_schema.py)
set(header ${SMELT_SCHEMA_DIR}/binary/xnnpack_graph_schema.h)
add_custom_command(OUTPUT ${header} DEPENDS ${SMELT_SCHEMAS} ${SMELT_PACK_SCHEMA} COMMENT "Binary schema xnnpack_graph"
  COMMAND ${SMELT_BINARY_SCHEMA} ${PROJECT_SOURCE_DIR}/schemas/xnnpack_graph.fbs
  COMMAND ${Python3_EXECUTABLE} ${SMELT_PACK_SCHEMA} ${header} xnnpack_graph_schema
    ${SMELT_SCHEMA_DIR}/binary/xnnpack_graph.bfbs)
list(APPEND SMELT_SCHEMA_HEADERS ${header})
add_custom_target(smelt_schemas DEPENDS ${SMELT_SCHEMA_HEADERS})
