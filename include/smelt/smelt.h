/**
 * @file
 * smelt in C99: loads and runs models of every format.
 *
 * Handles are opaque; each has a function that frees it and takes NULL. A function that can fail returns a
 * smelt_status; smelt_error_message() tells what was wrong and where. Results come through pointers, which are set to
 * NULL on failure. Strings are UTF-8; those that a function returns belong to the handle that was asked.
 *
 * Structs that may grow begin with their size. Initialise them by their macro, so that programs built against one
 * version run with a newer library: smelt_session_options options = SMELT_SESSION_OPTIONS_INIT;
 */
#ifndef SMELT_SMELT_H
#define SMELT_SMELT_H

#include <stddef.h>
#include <stdint.h>

#include "smelt/export.h"
#include "smelt/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Largest number of dimensions. */
#define SMELT_MAX_RANK 16

/** Behind the name of an enumeration: in C++, too, it holds any int, since a caller may give one without a name. */
#ifdef __cplusplus
#define SMELT_OF_INT : int
#else
#define SMELT_OF_INT
#endif

/** Outcome of a call. */
typedef enum smelt_status SMELT_OF_INT {
  SMELT_OK = 0,
  SMELT_INVALID_MODEL = 1, /**< the bytes of a model violate its format */
  SMELT_UNSUPPORTED = 2,   /**< a valid model needs something that this build lacks */
  SMELT_INVALID_INPUT = 3, /**< an argument, input or option is wrong */
  SMELT_LIMIT = 4,         /**< a limit (memory, time, steps, size) was reached */
  SMELT_CANCELLED = 5,     /**< smelt_session_cancel() stopped the run */
  SMELT_IO = 6,            /**< a file could not be read or written */
  SMELT_DEVICE = 7,        /**< an accelerator failed or is absent */
  SMELT_INTERNAL = 8       /**< a broken invariant of the library */
} smelt_status;

/** Element types. Sub-byte types are packed, first element in the low bits. */
typedef enum smelt_type SMELT_OF_INT {
  SMELT_TYPE_INVALID = 0,
  SMELT_FLOAT32 = 1,
  SMELT_FLOAT16 = 2,
  SMELT_BFLOAT16 = 3,
  SMELT_FLOAT64 = 4,
  SMELT_FLOAT8E4M3FN = 5,
  SMELT_FLOAT8E4M3FNUZ = 6,
  SMELT_FLOAT8E5M2 = 7,
  SMELT_FLOAT8E5M2FNUZ = 8,
  SMELT_FLOAT8E8M0 = 9,
  SMELT_FLOAT4E2M1 = 10,
  SMELT_INT2 = 11,
  SMELT_UINT2 = 12,
  SMELT_INT4 = 13,
  SMELT_UINT4 = 14,
  SMELT_INT8 = 15,
  SMELT_UINT8 = 16,
  SMELT_INT16 = 17,
  SMELT_UINT16 = 18,
  SMELT_INT32 = 19,
  SMELT_UINT32 = 20,
  SMELT_INT64 = 21,
  SMELT_UINT64 = 22,
  SMELT_BOOL = 23,   /**< one byte, 0 or 1 */
  SMELT_STRING = 24, /**< read by smelt_value_string(), set by smelt_value_set_string() */
  SMELT_COMPLEX64 = 25,
  SMELT_COMPLEX128 = 26
} smelt_type;

/** Kinds of values. */
typedef enum smelt_kind SMELT_OF_INT {
  SMELT_NONE = 0, /**< an optional that is absent */
  SMELT_TENSOR = 1,
  SMELT_SEQUENCE = 2,
  SMELT_MAP = 3 /**< two items: a tensor of keys and their values */
} smelt_kind;

typedef struct smelt_model smelt_model;     /**< A loaded model; immutable, may be used from all threads. */
typedef struct smelt_session smelt_session; /**< A compiled model with its variables; takes one call at a time. */
typedef struct smelt_value smelt_value;     /**< A tensor, sequence, map or none. */
typedef struct smelt_pool smelt_pool;       /**< Compute threads that sessions share. */

/** Version of the library, "1.2.3"; SMELT_VERSION_STRING is that of the headers. */
SMELT_API const char* smelt_version(void);
/** "ok", "invalid model", ... */
SMELT_API const char* smelt_status_name(smelt_status status);
/** Message of the last call that failed on this thread, valid until the next one that fails; "" before the first. */
SMELT_API const char* smelt_error_message(void);
/** "float32", "int8", ... */
SMELT_API const char* smelt_type_name(smelt_type type);

/** Level of a message. */
typedef enum smelt_log_level SMELT_OF_INT { SMELT_LOG_INFO = 0, SMELT_LOG_WARNING = 1 } smelt_log_level;
/** Takes messages of one line, on the thread that loads or runs. */
typedef void (*smelt_log_function)(void* context, smelt_log_level level, const char* message);

/** Options of smelt_model_load(). */
typedef struct smelt_load_options {
  size_t size;
  const char* const* data_files; /**< ExecuTorch external weights (.ptd) */
  size_t data_file_count;
  const char* const* operator_libraries; /**< shared libraries with custom operators, see smelt/operators.h */
  size_t operator_library_count;
  const char* const* tolerate; /**< rules that the file may break, as errors name them; "all" */
  size_t tolerate_count;
  smelt_log_function log; /**< NULL: nothing is told */
  void* log_context;
} smelt_load_options;
#define SMELT_LOAD_OPTIONS_INIT \
  { sizeof(smelt_load_options), NULL, 0, NULL, 0, NULL, 0, NULL, NULL }

/** Loads a file of any format. `options` may be NULL. */
SMELT_API smelt_status smelt_model_load(const char* path, const smelt_load_options* options, smelt_model** model);
/** Loads from memory, which must stay as it is while the model and its sessions live. `name` labels messages. */
SMELT_API smelt_status smelt_model_load_bytes(const void* bytes, size_t size, const char* name,
                                              const smelt_load_options* options, smelt_model** model);
/** Sessions of the model live on. */
SMELT_API void smelt_model_free(smelt_model* model);
/** "tflite", "onnx", "ort", "executorch", "xnnpack" or "vulkan". */
SMELT_API const char* smelt_model_format(const smelt_model* model);
/** What made the file, as the file says. */
SMELT_API const char* smelt_model_producer(const smelt_model* model);
/** Entries of the file's metadata (versions, opsets, custom keys), its class names, methods and reader's warnings. */
SMELT_API size_t smelt_model_metadata_count(const smelt_model* model);
SMELT_API const char* smelt_model_metadata_key(const smelt_model* model, size_t index);
SMELT_API const char* smelt_model_metadata_value(const smelt_model* model, size_t index);
SMELT_API size_t smelt_model_label_count(const smelt_model* model);
SMELT_API const char* smelt_model_label(const smelt_model* model, size_t index);
SMELT_API size_t smelt_model_method_count(const smelt_model* model);
SMELT_API const char* smelt_model_method(const smelt_model* model, size_t index);
SMELT_API size_t smelt_model_warning_count(const smelt_model* model);
SMELT_API const char* smelt_model_warning(const smelt_model* model, size_t index);

/** Description of an input or output. */
typedef struct smelt_port {
  size_t size;
  const char* name; /**< belongs to the model */
  smelt_kind kind;  /**< of optionals: that of their element */
  int32_t optional; /**< 1: may be left out */
  smelt_type type;
  int32_t rank;                 /**< -1: not known before the run */
  int64_t dims[SMELT_MAX_RANK]; /**< -1: not known before the run */
  float scale;                  /**< real = scale * (value - zero_point), one for the tensor; 0: no such quantization */
  int32_t zero_point;
} smelt_port;
#define SMELT_PORT_INIT \
  { sizeof(smelt_port), NULL, SMELT_NONE, 0, SMELT_TYPE_INVALID, -1, {0}, 0, 0 }

/** Inputs and outputs of a method; NULL or "": the first. Counts are 0 for an unknown method. */
SMELT_API size_t smelt_model_input_count(const smelt_model* model, const char* method);
SMELT_API size_t smelt_model_output_count(const smelt_model* model, const char* method);
SMELT_API smelt_status smelt_model_input(const smelt_model* model, const char* method, size_t index, smelt_port* port);
SMELT_API smelt_status smelt_model_output(const smelt_model* model, const char* method, size_t index, smelt_port* port);
/** Index of the input or output of that name. */
SMELT_API smelt_status smelt_model_find_input(const smelt_model* model, const char* method, const char* name,
                                              size_t* index);
SMELT_API smelt_status smelt_model_find_output(const smelt_model* model, const char* method, const char* name,
                                               size_t* index);
/** A model whose method gives the named values (outputs, inputs, intermediate values) in this order. */
SMELT_API smelt_status smelt_model_with_outputs(const smelt_model* model, const char* method, const char* const* names,
                                                size_t count, smelt_model** chosen);

/** Makes a pool of 1 to 256 threads. Sessions that use it keep it alive. */
SMELT_API smelt_status smelt_pool_create(int32_t threads, smelt_pool** pool);
SMELT_API void smelt_pool_free(smelt_pool* pool);

/** Whose arithmetic the quantized operators of a TFLite model follow. */
typedef enum smelt_arithmetic SMELT_OF_INT {
  SMELT_ARITHMETIC_REFERENCE = 0,     /**< LiteRT's reference kernels */
  SMELT_ARITHMETIC_LITERT_XNNPACK = 1 /**< LiteRT as it runs by default, with XNNPACK */
} smelt_arithmetic;

/** Options of smelt_session_create(); 0 and NULL stand for the defaults. */
typedef struct smelt_session_options {
  size_t size;
  const char* backend;    /**< "cpu" (default), "vulkan", "reference" */
  const char* method;     /**< NULL: the first */
  int32_t threads;        /**< 1 to 256; 0: 1 */
  int32_t device;         /**< index in the list of `smelt devices`; -1: the best */
  int32_t fp16;           /**< 1: multiply in float16 on Vulkan devices */
  int32_t profile;        /**< 1: measure each node */
  uint64_t seed;          /**< of random operators without one of their own */
  uint64_t limit_memory;  /**< bytes of a run beyond the weights; 0: scales with the model */
  uint64_t limit_steps;   /**< node executions of a run; 0: scales with the model */
  double limit_seconds;   /**< 0: none */
  const smelt_pool* pool; /**< replaces `threads`; NULL: threads of the session's own */
  smelt_log_function log; /**< NULL: nothing is told */
  void* log_context;
  const char* isa; /**< level of the CPU's kernels (`smelt devices`); NULL: SMELT_ISA, else the best */
  smelt_arithmetic arithmetic;
  int32_t deterministic; /**< 1: the same bits for every number of threads and every position in a batch; no `pool` */
  int32_t strict_types;  /**< 1: float16 and bfloat16 values between nodes are not widened to float32 */
} smelt_session_options;
#define SMELT_SESSION_OPTIONS_INIT                                                              \
  {                                                                                             \
    sizeof(smelt_session_options), NULL, NULL, 0, -1, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, \
        SMELT_ARITHMETIC_REFERENCE, 0, 0                                                        \
  }

/** Compiles a model. `options` may be NULL. */
SMELT_API smelt_status smelt_session_create(const smelt_model* model, const smelt_session_options* options,
                                            smelt_session** session);
SMELT_API void smelt_session_free(smelt_session* session);
/**
 * Runs the session's method. Inputs come in the model's order, NULL for an optional that is left out. Each outputs[i]
 * becomes a new value, to be freed with smelt_value_free(). `input_count` and `output_count` must be the model's.
 */
SMELT_API smelt_status smelt_session_run(smelt_session* session, const smelt_value* const* inputs, size_t input_count,
                                         smelt_value** outputs, size_t output_count);
/**
 * Runs and writes the outputs into tensors of the caller, which must have their types and shapes. An output may have
 * the memory of an input: of a cache that the model updates in some rows, these alone are written then. After an error,
 * outputs may be written in part.
 */
SMELT_API smelt_status smelt_session_run_into(smelt_session* session, const smelt_value* const* inputs,
                                              size_t input_count, smelt_value* const* outputs, size_t output_count);
/** Called with the outcome of smelt_session_run_async(). The outputs belong to the callee; NULL unless SMELT_OK. */
typedef void (*smelt_done_function)(void* context, smelt_status status, smelt_value** outputs, size_t output_count);
/**
 * Runs on a thread of the session, behind the runs that were begun before, and calls `done` there, which may ask for
 * smelt_error_message() and must not free the session. The inputs may be freed at once; memory that they view must stay
 * as it is. Until all runs are done, only this function and smelt_session_cancel() may be called.
 */
SMELT_API smelt_status smelt_session_run_async(smelt_session* session, const smelt_value* const* inputs,
                                               size_t input_count, smelt_done_function done, void* context);
/** Stops a run from another thread; that run returns SMELT_CANCELLED. */
SMELT_API void smelt_session_cancel(smelt_session* session);
/** Variables take their initial values. */
SMELT_API void smelt_session_reset_state(smelt_session* session);
/** Instruction set level of the CPU kernels. */
SMELT_API const char* smelt_session_isa(const smelt_session* session);

/** Time of a node. The strings are valid until the session's next smelt_session_profile(). */
typedef struct smelt_profile_entry {
  size_t size;
  const char *node, *op, *origin, *kernel, *output;
  double micros; /**< over all calls */
  uint64_t calls;
  uint64_t graph, index; /**< of the optimised model, as `smelt inspect --optimised --nodes` lists it */
} smelt_profile_entry;
#define SMELT_PROFILE_ENTRY_INIT \
  { sizeof(smelt_profile_entry), NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0 }
/** Takes the profile since the session or smelt_session_reset_profile() began; `count` entries. */
SMELT_API smelt_status smelt_session_profile(smelt_session* session, size_t* count);
/** An entry of the profile that was taken last. */
SMELT_API smelt_status smelt_session_profile_entry(const smelt_session* session, size_t index,
                                                   smelt_profile_entry* entry);
SMELT_API void smelt_session_reset_profile(smelt_session* session);

/** A tensor of zeros, or of empty strings, which owns its elements. */
SMELT_API smelt_status smelt_tensor_create(smelt_type type, int32_t rank, const int64_t* dims, smelt_value** tensor);
/** A tensor on the caller's memory, which must stay while the tensor is used. `bytes` must be what the type and shape
 * make. Not for SMELT_STRING. */
SMELT_API smelt_status smelt_tensor_view(smelt_type type, int32_t rank, const int64_t* dims, void* data, size_t bytes,
                                         smelt_value** tensor);
/** A sequence of copies of `items`, which share their elements; a map of keys and values. */
SMELT_API smelt_status smelt_sequence_create(const smelt_value* const* items, size_t count, smelt_value** sequence);
SMELT_API smelt_status smelt_map_create(const smelt_value* keys, const smelt_value* values, smelt_value** map);
SMELT_API void smelt_value_free(smelt_value* value);
SMELT_API smelt_kind smelt_value_kind(const smelt_value* value);
/** Items of a sequence or map; 0 for other kinds. */
SMELT_API size_t smelt_value_item_count(const smelt_value* value);
/** A new value that shares the item's elements. */
SMELT_API smelt_status smelt_value_item(const smelt_value* value, size_t index, smelt_value** item);
/** Of tensors; other kinds: SMELT_TYPE_INVALID, rank 0, no elements, NULL. */
SMELT_API smelt_type smelt_value_type(const smelt_value* value);
SMELT_API int32_t smelt_value_rank(const smelt_value* value);
SMELT_API const int64_t* smelt_value_dims(const smelt_value* value);
SMELT_API int64_t smelt_value_elements(const smelt_value* value);
SMELT_API size_t smelt_value_bytes(const smelt_value* value);
SMELT_API void* smelt_value_data(smelt_value* value);
/** Element `index` of a tensor of strings, with its length if that is not NULL; NULL where there is none. */
SMELT_API const char* smelt_value_string(const smelt_value* value, int64_t index, size_t* length);
SMELT_API smelt_status smelt_value_set_string(smelt_value* value, int64_t index, const char* text, size_t length);

#ifdef __cplusplus
}
#endif

#endif
