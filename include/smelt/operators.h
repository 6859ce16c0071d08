/**
 * @file
 * Custom operators from a shared library, in C99: `smelt run --custom-ops LIB.so`, smelt_load_options and
 * smelt::load_custom_operators(). The library needs no other symbol of smelt. It exports smelt_custom_operators().
 */
#ifndef SMELT_OPERATORS_H
#define SMELT_OPERATORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Type of an operand or result, and its elements while the operator runs. `type` is a smelt_type. */
typedef struct smelt_array {
  int32_t type;     /**< 0: not known, or an absent optional operand */
  int32_t rank;     /**< -1: not known */
  int64_t dims[16]; /**< -1: not known */
  float scale;      /**< real = scale * (value - zero_point); 0: not quantized, or not by one scale */
  int32_t zero_point;
  void* data; /**< elements in row-major order; NULL before the run and for absent operands */
} smelt_array;

/** Bytes of the message of an operator that fails, its terminating 0 included. */
#define SMELT_OPERATOR_MESSAGE 256

/**
 * An operator. Functions return 0, or another number after they wrote a message. All but `prepare` may be called from
 * several threads at once.
 */
typedef struct smelt_custom_operator {
  size_t size; /**< sizeof(smelt_custom_operator) */
  /** As models name it: the custom_code of TFLite, "domain::Name" in ONNX, "namespace::name.overload" in ExecuTorch. */
  const char* name;
  /** Reads a node's options as the format stores them; `*state` goes to the other functions. May be NULL. */
  int (*prepare)(const void* options, size_t bytes, const smelt_array* inputs, size_t input_count, size_t output_count,
                 void** state, char* message);
  /** Frees the state. May be NULL. */
  void (*release)(void* state);
  /** Sets type, rank, dims and quantization of the outputs, which hold the declared ones. Called at load, where
   * dimensions may be unknown, and for a run, where those of the inputs are known and the outputs' must become so. */
  int (*infer)(void* state, const smelt_array* inputs, size_t input_count, smelt_array* outputs, size_t output_count,
               char* message);
  /** Computes the outputs, which are allocated. */
  int (*run)(void* state, const smelt_array* inputs, size_t input_count, smelt_array* outputs, size_t output_count,
             char* message);
} smelt_custom_operator;

/** What the library exports: its operators, which must stay as they are; their number in `*count`. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const smelt_custom_operator*
smelt_custom_operators(size_t* count);

#ifdef __cplusplus
}
#endif

#endif
