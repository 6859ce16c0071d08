/*
 * Runs an ONNX model with one float32 input and one float32 output through ONNXIFI.
 *
 *     cc run_model.c -Iinclude -ldl -o run_model
 *     ./run_model path/to/libonnxifi.so model.onnx INPUT OUTPUT 1,3,224,224 1,1000
 *
 * The library is opened at run time, as a framework would: nothing of it is linked.
 */
#include <dlfcn.h>
#include <onnxifi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANK 8

static void check(onnxStatus status, const char* what) {
  if (status == ONNXIFI_STATUS_SUCCESS) return;
  fprintf(stderr, "%s: status 0x%04x\n", what, (unsigned)status);
  exit(1);
}

static void* symbol(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (!address) {
    fprintf(stderr, "the library has no %s\n", name);
    exit(1);
  }
  return address;
}

static void* read_file(const char* path, size_t* size) {
  FILE* f = fopen(path, "rb");
  if (!f || fseek(f, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  *size = (size_t)ftell(f);
  rewind(f);
  void* bytes = malloc(*size);
  if (!bytes || fread(bytes, 1, *size, f) != *size) {
    perror(path);
    exit(1);
  }
  fclose(f);
  return bytes;
}

/* Parses "1,3,224,224" and describes a zero-filled tensor of that shape. */
static onnxTensorDescriptorV1 tensor(const char* name, char* text, uint64_t* shape, size_t* elements) {
  onnxTensorDescriptorV1 d;
  memset(&d, 0, sizeof d);
  d.tag = ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1;
  d.name = name;
  d.dataType = ONNXIFI_DATATYPE_FLOAT32;
  d.memoryType = ONNXIFI_MEMORY_TYPE_CPU;
  d.shape = shape;
  *elements = 1;
  for (char* part = strtok(text, ","); part && d.dimensions < MAX_RANK; part = strtok(NULL, ",")) {
    shape[d.dimensions++] = strtoull(part, NULL, 10);
    *elements *= shape[d.dimensions - 1];
  }
  d.buffer = (onnxPointer)(uintptr_t)calloc(*elements, sizeof(float));
  return d;
}

int main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: %s LIBRARY MODEL INPUT OUTPUT INPUT_SHAPE OUTPUT_SHAPE\n", argv[0]);
    return 2;
  }
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
#define LOAD(name) name##Function name##_ = (name##Function)(uintptr_t)symbol(library, #name)
  LOAD(onnxGetBackendIDs);
  LOAD(onnxReleaseBackendID);
  LOAD(onnxInitBackend);
  LOAD(onnxReleaseBackend);
  LOAD(onnxInitEvent);
  LOAD(onnxSignalEvent);
  LOAD(onnxWaitEvent);
  LOAD(onnxReleaseEvent);
  LOAD(onnxInitGraph);
  LOAD(onnxSetGraphIO);
  LOAD(onnxRunGraph);
  LOAD(onnxReleaseGraph);

  onnxBackendID ids[16];
  size_t count = 16, model_size, in_elements, out_elements;
  check(onnxGetBackendIDs_(ids, &count), "onnxGetBackendIDs");
  onnxBackend backend;
  check(onnxInitBackend_(ids[0], NULL, &backend), "onnxInitBackend");
  void* model = read_file(argv[2], &model_size);
  onnxGraph graph;
  check(onnxInitGraph_(backend, NULL, model_size, model, 0, NULL, &graph, 0, NULL), "onnxInitGraph");
  free(model);

  uint64_t in_shape[MAX_RANK], out_shape[MAX_RANK];
  onnxTensorDescriptorV1 in = tensor(argv[3], argv[5], in_shape, &in_elements),
                         out = tensor(argv[4], argv[6], out_shape, &out_elements);
  float* x = (float*)(uintptr_t)in.buffer;
  float* y = (float*)(uintptr_t)out.buffer;
  for (size_t i = 0; i < in_elements; ++i) x[i] = (float)(i % 17) / 8 - 1;
  check(onnxSetGraphIO_(graph, 1, &in, 1, &out), "onnxSetGraphIO");

  onnxMemoryFenceV1 ready = {.tag = ONNXIFI_TAG_MEMORY_FENCE_V1, .type = ONNXIFI_SYNCHRONIZATION_EVENT};
  onnxMemoryFenceV1 done = ready;
  check(onnxInitEvent_(backend, &ready.event), "onnxInitEvent");
  check(onnxRunGraph_(graph, &ready, &done), "onnxRunGraph"); /* returns at once */
  check(onnxSignalEvent_(ready.event), "onnxSignalEvent");    /* the inputs are there */
  check(onnxWaitEvent_(done.event), "onnxWaitEvent");
  for (size_t i = 0; i < out_elements && i < 16; ++i) printf("%g\n", y[i]);

  onnxReleaseEvent_(ready.event);
  onnxReleaseEvent_(done.event);
  onnxReleaseGraph_(graph);
  onnxReleaseBackend_(backend);
  for (size_t i = 0; i < count; ++i) onnxReleaseBackendID_(ids[i]);
  free(x);
  free(y);
  return 0;
}
