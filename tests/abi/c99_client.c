/* The header from plain C99: names, numbers and layout. Compiling is the test; running checks the layout. */
#include <onnxifi.h>
#include <stdio.h>

#define CHECK(condition)                                    \
  do {                                                      \
    if (!(condition)) {                                     \
      printf("FAILED line %d: %s\n", __LINE__, #condition); \
      return 1;                                             \
    }                                                       \
  } while (0)

int main(void) {
  CHECK(sizeof(onnxTensorDescriptorV1) == 96);
  CHECK(offsetof(onnxTensorDescriptorV1, name) == 8);
  CHECK(offsetof(onnxTensorDescriptorV1, dataType) == 16);
  CHECK(offsetof(onnxTensorDescriptorV1, memoryType) == 24);
  CHECK(offsetof(onnxTensorDescriptorV1, dimensions) == 32);
  CHECK(offsetof(onnxTensorDescriptorV1, shape) == 40);
  CHECK(offsetof(onnxTensorDescriptorV1, quantizationAxis) == 48);
  CHECK(offsetof(onnxTensorDescriptorV1, quantizationParams) == 56);
  CHECK(offsetof(onnxTensorDescriptorV1, scales) == 64);
  CHECK(offsetof(onnxTensorDescriptorV1, biases) == 72);
  CHECK(offsetof(onnxTensorDescriptorV1, isOffline) == 80);
  CHECK(offsetof(onnxTensorDescriptorV1, buffer) == 88);
  CHECK(sizeof(onnxMemoryFenceV1) == 24);
  CHECK(offsetof(onnxMemoryFenceV1, type) == 8);
  CHECK(offsetof(onnxMemoryFenceV1, event) == 16);
  CHECK(ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1 == 0x43DFBF69 && ONNXIFI_TAG_MEMORY_FENCE_V1 == 0x23E08AAB);
  size_t count = 0;
  CHECK(onnxGetBackendIDs(NULL, &count) == ONNXIFI_STATUS_FALLBACK && count >= 1);
  printf("1 passed, 0 failed\n");
  return 0;
}
