/*
 * ONNXIFI: a C interface through which a program runs ONNX models on a backend that it finds at run time.
 *
 * This header has the names, numbers and memory layout of ONNXIFI 1.0 in its foxi form (tensor descriptors with
 * quantization, onnxInitGraph with maxSeqLength and deferredWeightReader). libonnxifi.so of smelt implements it.
 *
 * Conventions: every function returns an onnxStatus. Functions that return data of variable size take the buffer's size
 * in *size and store the needed size there; with a NULL or short buffer they return ONNXIFI_STATUS_FALLBACK and write
 * nothing else. Handles may be used from any thread. A released or foreign handle gives the INVALID_* status of its
 * kind.
 */
#ifndef ONNXIFI_H
#define ONNXIFI_H 1

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(_M_IX86)
#define ONNXIFI_ABI __stdcall
#elif defined(__i386__)
#define ONNXIFI_ABI __attribute__((__cdecl__))
#else
#define ONNXIFI_ABI
#endif

#ifndef ONNXIFI_PUBLIC
#if defined(_WIN32) && defined(ONNXIFI_BUILD_LIBRARY)
#define ONNXIFI_PUBLIC __declspec(dllexport)
#elif defined(_WIN32)
#define ONNXIFI_PUBLIC __declspec(dllimport)
#elif defined(__GNUC__)
#define ONNXIFI_PUBLIC __attribute__((__visibility__("default")))
#else
#define ONNXIFI_PUBLIC
#endif
#endif

#ifndef ONNXIFI_CHECK_RESULT
#if defined(__GNUC__)
#define ONNXIFI_CHECK_RESULT __attribute__((__warn_unused_result__))
#else
#define ONNXIFI_CHECK_RESULT
#endif
#endif

/* Handles. A backend ID names software plus device for the life of the process. */
typedef void* onnxBackendID;
typedef void* onnxBackend;
typedef void* onnxGraph;
typedef void* onnxEvent;

typedef int32_t onnxStatus;
typedef uint64_t onnxEnum;     /* low 32 bits: standard values; high 32 bits: a vendor's */
typedef uint64_t onnxBitfield; /* likewise */
typedef uint64_t onnxPointer;  /* an address or a device handle */

/* ---- Status codes ---- */
#define ONNXIFI_STATUS_SUCCESS 0x0000
#define ONNXIFI_STATUS_FALLBACK 0x0001 /* done in part: see the function */
/* The call's arguments are wrong. */
#define ONNXIFI_STATUS_INVALID_ID 0x0101
#define ONNXIFI_STATUS_INVALID_SIZE 0x0102
#define ONNXIFI_STATUS_INVALID_POINTER 0x0103
#define ONNXIFI_STATUS_INVALID_PROTOBUF 0x0104
#define ONNXIFI_STATUS_INVALID_MODEL 0x0105
#define ONNXIFI_STATUS_INVALID_BACKEND 0x0106
#define ONNXIFI_STATUS_INVALID_GRAPH 0x0107
#define ONNXIFI_STATUS_INVALID_EVENT 0x0108
#define ONNXIFI_STATUS_INVALID_STATE 0x0109
#define ONNXIFI_STATUS_INVALID_NAME 0x010A
#define ONNXIFI_STATUS_INVALID_SHAPE 0x010B
#define ONNXIFI_STATUS_INVALID_DATATYPE 0x010C
#define ONNXIFI_STATUS_INVALID_MEMORY_TYPE 0x010D
#define ONNXIFI_STATUS_INVALID_MEMORY_LOCATION 0x010E
#define ONNXIFI_STATUS_INVALID_FENCE_TYPE 0x010F
#define ONNXIFI_STATUS_INVALID_PROPERTY 0x0110
/* The arguments are right, but this backend does not do it. */
#define ONNXIFI_STATUS_UNSUPPORTED_TAG 0x0201
#define ONNXIFI_STATUS_UNSUPPORTED_VERSION 0x0202
#define ONNXIFI_STATUS_UNSUPPORTED_OPERATOR 0x0203
#define ONNXIFI_STATUS_UNSUPPORTED_ATTRIBUTE 0x0204
#define ONNXIFI_STATUS_UNSUPPORTED_SHAPE 0x0205
#define ONNXIFI_STATUS_UNSUPPORTED_DATATYPE 0x0206
#define ONNXIFI_STATUS_UNSUPPORTED_MEMORY_TYPE 0x0207
#define ONNXIFI_STATUS_UNSUPPORTED_FENCE_TYPE 0x0208
#define ONNXIFI_STATUS_UNSUPPORTED_PROPERTY 0x0209
/* The arguments contradict each other or the model. */
#define ONNXIFI_STATUS_UNIDENTIFIED_NAME 0x0301
#define ONNXIFI_STATUS_MISMATCHING_SHAPE 0x0302
#define ONNXIFI_STATUS_MISMATCHING_DATATYPE 0x0303
/* The system or the device failed. */
#define ONNXIFI_STATUS_NO_SYSTEM_MEMORY 0x0401
#define ONNXIFI_STATUS_NO_DEVICE_MEMORY 0x0402
#define ONNXIFI_STATUS_NO_SYSTEM_RESOURCES 0x0403
#define ONNXIFI_STATUS_NO_DEVICE_RESOURCES 0x0404
#define ONNXIFI_STATUS_BACKEND_UNAVAILABLE 0x0405
#define ONNXIFI_STATUS_INTERNAL_ERROR 0x0406
#define ONNXIFI_STATUS_FATAL_ERROR 0x0407

/* ---- Events: single shot, from NONSIGNALLED to SIGNALLED ---- */
typedef int32_t onnxEventState;
#define ONNXIFI_EVENT_STATE_INVALID 0
#define ONNXIFI_EVENT_STATE_NONSIGNALLED 0x16BD
#define ONNXIFI_EVENT_STATE_SIGNALLED 0x3395

/* ---- Kinds of device ---- */
#define ONNXIFI_DEVICE_TYPE_NPU 0x01
#define ONNXIFI_DEVICE_TYPE_DSP 0x02
#define ONNXIFI_DEVICE_TYPE_GPU 0x04
#define ONNXIFI_DEVICE_TYPE_CPU 0x08
#define ONNXIFI_DEVICE_TYPE_FPGA 0x10
#define ONNXIFI_DEVICE_TYPE_HETEROGENEOUS 0x20

/* ---- Capabilities ---- */
#define ONNXIFI_CAPABILITY_THREAD_SAFE 0x01           /* objects may be used from any thread */
#define ONNXIFI_CAPABILITY_SYMBOLIC_BATCH_SIZE 0x02   /* dim_param in the outer dimension of inputs and outputs */
#define ONNXIFI_CAPABILITY_SYMBOLIC_SIZE_TENSORS 0x04 /* dim_param in any dimension */
#define ONNXIFI_CAPABILITY_VARIABLE_BATCH_SIZE \
  0x08 /* outer dimension of outputs depends on data; given sizes are bounds */
#define ONNXIFI_CAPABILITY_VARIABLE_SIZE_OUTPUTS 0x10 /* likewise any dimension */
#define ONNXIFI_CAPABILITY_HOT_PLUGGABLE 0x20         /* the device may go away */

/* ---- What onnxGetBackendInfo tells; the type of the value in brackets ---- */
typedef int32_t onnxBackendInfo;
#define ONNXIFI_BACKEND_ONNXIFI_VERSION 0             /* [uint64_t] major in the high, minor in the low 32 bits */
#define ONNXIFI_BACKEND_NAME 1                        /* [char[]] strings carry no terminating NUL */
#define ONNXIFI_BACKEND_VENDOR 2                      /* [char[]] */
#define ONNXIFI_BACKEND_VERSION 3                     /* [char[]] */
#define ONNXIFI_BACKEND_EXTENSIONS 4                  /* [char[]] names, separated by spaces */
#define ONNXIFI_BACKEND_DEVICE 5                      /* [char[]] */
#define ONNXIFI_BACKEND_DEVICE_TYPE 6                 /* [onnxEnum] ONNXIFI_DEVICE_TYPE_* */
#define ONNXIFI_BACKEND_ONNX_IR_VERSION 7             /* [char[]] IR versions, separated by spaces */
#define ONNXIFI_BACKEND_OPSET_VERSION 8               /* [char[]] domain:newest pairs, separated by spaces */
#define ONNXIFI_BACKEND_CAPABILITIES 10               /* [onnxBitfield] ONNXIFI_CAPABILITY_* */
#define ONNXIFI_BACKEND_INIT_PROPERTIES 11            /* [onnxBitfield] */
#define ONNXIFI_BACKEND_MEMORY_TYPES 12               /* [onnxBitfield] ONNXIFI_MEMORY_TYPE_* */
#define ONNXIFI_BACKEND_GRAPH_INIT_PROPERTIES 13      /* [onnxBitfield] */
#define ONNXIFI_BACKEND_SYNCHRONIZATION_TYPES 14      /* [onnxBitfield] ONNXIFI_SYNCHRONIZATION_* */
#define ONNXIFI_BACKEND_MEMORY_SIZE 20                /* [uint64_t] bytes */
#define ONNXIFI_BACKEND_MAX_GRAPH_SIZE 21             /* [uint64_t] bytes of parameters */
#define ONNXIFI_BACKEND_MAX_GRAPH_COUNT 22            /* [uint64_t] */
#define ONNXIFI_BACKEND_MACS_FP32 30                  /* [uint64_t] a second; optional, as all that follow */
#define ONNXIFI_BACKEND_MACS_FP16 31                  /* [uint64_t] */
#define ONNXIFI_BACKEND_MEMORY_BANDWIDTH 35           /* [uint64_t] bytes a second */
#define ONNXIFI_BACKEND_CPU_MEMORY_READ_BANDWIDTH 36  /* [uint64_t] */
#define ONNXIFI_BACKEND_CPU_MEMORY_WRITE_BANDWIDTH 37 /* [uint64_t] */
#define ONNXIFI_BACKEND_PCI_BUS_ID 40                 /* [uint64_t] */
#define ONNXIFI_BACKEND_PCI_DEVICE_ID 41              /* [uint64_t] */
#define ONNXIFI_BACKEND_PCI_DOMAIN_ID 42              /* [uint64_t] */
#define ONNXIFI_BACKEND_DIRECTX_ID 43                 /* [LUID] */
#define ONNXIFI_BACKEND_CUDA_INDEX 44                 /* [uint64_t] */
#define ONNXIFI_BACKEND_OPENCL_PLATFORM_ID 45         /* [cl_platform_id] */
#define ONNXIFI_BACKEND_OPENCL_DEVICE_ID 46           /* [cl_device_id] */

/* ---- Element types: the numbers of ONNX TensorProto.DataType ---- */
#define ONNXIFI_DATATYPE_UNDEFINED 0
#define ONNXIFI_DATATYPE_FLOAT32 1
#define ONNXIFI_DATATYPE_UINT8 2
#define ONNXIFI_DATATYPE_INT8 3
#define ONNXIFI_DATATYPE_UINT16 4
#define ONNXIFI_DATATYPE_INT16 5
#define ONNXIFI_DATATYPE_INT32 6
#define ONNXIFI_DATATYPE_INT64 7
#define ONNXIFI_DATATYPE_FLOAT16 10
#define ONNXIFI_DATATYPE_FLOAT64 11
#define ONNXIFI_DATATYPE_UINT32 12
#define ONNXIFI_DATATYPE_UINT64 13
#define ONNXIFI_DATATYPE_COMPLEX64 14
#define ONNXIFI_DATATYPE_COMPLEX128 15
#define ONNXIFI_DATATYPE_BFLOAT16 16

/* ---- Where tensors lie ---- */
#define ONNXIFI_MEMORY_TYPE_CPU 0
#define ONNXIFI_MEMORY_TYPE_CUDA_BUFFER 1
#define ONNXIFI_MEMORY_TYPE_OPENCL_BUFFER 2
#define ONNXIFI_MEMORY_TYPE_OPENGLES_TEXTURE_2D 4
#define ONNXIFI_MEMORY_TYPE_D3D_RESOURCE 8

/* ---- Properties: lists of key, value, key, value, ..., NONE ---- */
#define ONNXIFI_BACKEND_PROPERTY_NONE 0
#define ONNXIFI_BACKEND_PROPERTY_OPTIMIZATION 1 /* ONNXIFI_OPTIMIZATION_* */
#define ONNXIFI_BACKEND_PROPERTY_LOG_LEVEL 2    /* ONNXIFI_LOG_LEVEL_* */
#define ONNXIFI_BACKEND_CUDA_STREAM 4
#define ONNXIFI_BACKEND_OPENCL_CONTEXT 8

#define ONNXIFI_GRAPH_PROPERTY_NONE 0

#define ONNXIFI_OPTIMIZATION_HIGH_THROUGHPUT 0
#define ONNXIFI_OPTIMIZATION_LOW_LATENCY 1
#define ONNXIFI_OPTIMIZATION_LOW_POWER 2
#define ONNXIFI_OPTIMIZATION_LOW_DELAY 3
#define ONNXIFI_OPTIMIZATION_AOT 4

#define ONNXIFI_LOG_LEVEL_ERROR 4
#define ONNXIFI_LOG_LEVEL_WARNING 3
#define ONNXIFI_LOG_LEVEL_INFO 2
#define ONNXIFI_LOG_LEVEL_DEBUG 1

/* ---- Tensor descriptors ---- */
#define ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1 0x43DFBF69

typedef struct onnxTensorDescriptorV1 {
  int32_t tag;                 /* ONNXIFI_TAG_TENSOR_DESCRIPTOR_V1; checked before any other member is read */
  const char* name;            /* of a graph input or output */
  onnxEnum dataType;           /* ONNXIFI_DATATYPE_* */
  onnxEnum memoryType;         /* ONNXIFI_MEMORY_TYPE_* */
  uint32_t dimensions;         /* 0: a scalar */
  const uint64_t* shape;       /* may be NULL for a scalar */
  uint32_t quantizationAxis;   /* along which quantization parameters differ */
  uint64_t quantizationParams; /* how many there are; 0: not quantized, the two pointers below are not read */
  const float* scales;
  const int32_t* biases;
  uint8_t isOffline;  /* not 0: a weight without data, which a deferred weight reader would deliver */
  onnxPointer buffer; /* address of the elements in CPU memory, dense and row-major */
} onnxTensorDescriptorV1;

/* ---- Memory fences ---- */
#define ONNXIFI_SYNCHRONIZATION_EVENT 0
#define ONNXIFI_SYNCHRONIZATION_IMPLICIT 2

#define ONNXIFI_TAG_MEMORY_FENCE_V1 0x23E08AAB

typedef struct onnxMemoryFenceV1 {
  int32_t tag;   /* ONNXIFI_TAG_MEMORY_FENCE_V1; checked first */
  onnxEnum type; /* ONNXIFI_SYNCHRONIZATION_* */
#if defined(__GNUC__)
  __extension__
#endif
      union {
    onnxEvent event; /* input fence: made by the caller; output fence: made by onnxRunGraph, released by the caller */
  };
} onnxMemoryFenceV1;

/* ---- Functions, and their types for dynamic loading ---- */

/* Handles of the available backends. Each successful call counts one reference for every handle. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetBackendIDsFunction)(onnxBackendID* backendIDs,
                                                                                size_t* numBackends);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxGetBackendIDs(onnxBackendID* backendIDs,
                                                                             size_t* numBackends);

typedef onnxStatus(ONNXIFI_ABI* onnxReleaseBackendIDFunction)(onnxBackendID backendID);
ONNXIFI_PUBLIC onnxStatus ONNXIFI_ABI onnxReleaseBackendID(onnxBackendID backendID);

/* One fact about a backend. UNSUPPORTED_ATTRIBUTE: a key that this backend does not answer. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetBackendInfoFunction)(onnxBackendID backendID,
                                                                                 onnxBackendInfo infoType,
                                                                                 void* infoValue,
                                                                                 size_t* infoValueSize);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxGetBackendInfo(onnxBackendID backendID,
                                                                              onnxBackendInfo infoType, void* infoValue,
                                                                              size_t* infoValueSize);

/* Whether onnxInitGraph would take the model (a serialized ModelProto, with or without its weights). */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetBackendCompatibilityFunction)(onnxBackendID backendID,
                                                                                          size_t onnxModelSize,
                                                                                          const void* onnxModel);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxGetBackendCompatibility(onnxBackendID backendID,
                                                                                       size_t onnxModelSize,
                                                                                       const void* onnxModel);

typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxInitBackendFunction)(onnxBackendID backendID,
                                                                              const uint64_t* auxPropertiesList,
                                                                              onnxBackend* backend);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxInitBackend(onnxBackendID backendID,
                                                                           const uint64_t* auxPropertiesList,
                                                                           onnxBackend* backend);

typedef onnxStatus(ONNXIFI_ABI* onnxReleaseBackendFunction)(onnxBackend backend);
ONNXIFI_PUBLIC onnxStatus ONNXIFI_ABI onnxReleaseBackend(onnxBackend backend);

typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxInitEventFunction)(onnxBackend backend, onnxEvent* event);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxInitEvent(onnxBackend backend, onnxEvent* event);

/* INVALID_STATE when the event is signalled already. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxSignalEventFunction)(onnxEvent event);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxSignalEvent(onnxEvent event);

typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetEventStateFunction)(onnxEvent event, onnxEventState* state);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxGetEventState(onnxEvent event, onnxEventState* state);

/* Blocks until the event is signalled. INTERNAL_ERROR when the run that signalled it failed. The calling thread may
 * itself execute the run that it waits for. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxWaitEventFunction)(onnxEvent event);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxWaitEvent(onnxEvent event);

/* Runs that wait for an event which is released unsignalled fail: nobody can signal it any more. */
typedef onnxStatus(ONNXIFI_ABI* onnxReleaseEventFunction)(onnxEvent event);
ONNXIFI_PUBLIC onnxStatus ONNXIFI_ABI onnxReleaseEvent(onnxEvent event);

/* Model and weight memory may be reused when the call returns. Weight descriptors exclude initializers in the model; a
 * partial list leaves the other inputs to onnxSetGraphIO. maxSeqLength means nothing here. Deferred weights are
 * refused: a descriptor with isOffline gives INVALID_MEMORY_LOCATION, and deferredWeightReader is never looked at. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxInitGraphFunction)(
    onnxBackend backend, const uint64_t* auxPropertiesList, size_t onnxModelSize, const void* onnxModel,
    uint32_t weightsCount, const onnxTensorDescriptorV1* weightDescriptors, onnxGraph* graph, uint32_t maxSeqLength,
    void* deferredWeightReader);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI
onnxInitGraph(onnxBackend backend, const uint64_t* auxPropertiesList, size_t onnxModelSize, const void* onnxModel,
              uint32_t weightsCount, const onnxTensorDescriptorV1* weightDescriptors, onnxGraph* graph,
              uint32_t maxSeqLength, void* deferredWeightReader);

/* Where the next runs find inputs and put outputs. Replaces earlier locations; a failed call leaves none. Static
 * weights need no location; one that is given is checked and not read. What the model leaves open of shapes is
 * validated here: contradictions give MISMATCHING_SHAPE. Where an output's shape is open its location is an upper
 * limit, and the result lies dense at the location's start. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxSetGraphIOFunction)(
    onnxGraph graph, uint32_t inputsCount, const onnxTensorDescriptorV1* inputDescriptors, uint32_t outputsCount,
    const onnxTensorDescriptorV1* outputDescriptors);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI
onnxSetGraphIO(onnxGraph graph, uint32_t inputsCount, const onnxTensorDescriptorV1* inputDescriptors,
               uint32_t outputsCount, const onnxTensorDescriptorV1* outputDescriptors);

/* Queues a run and returns. It starts when the input fence's event is signalled; the output fence gets a new event,
 * which the caller releases. Runs of one graph follow each other, graphs run side by side. A run fails when the run
 * that signalled its input event failed. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxRunGraphFunction)(onnxGraph graph,
                                                                           const onnxMemoryFenceV1* inputFence,
                                                                           onnxMemoryFenceV1* outputFence);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI onnxRunGraph(onnxGraph graph,
                                                                        const onnxMemoryFenceV1* inputFence,
                                                                        onnxMemoryFenceV1* outputFence);

/* Blocks until the graph's queued runs are over. */
typedef onnxStatus(ONNXIFI_ABI* onnxReleaseGraphFunction)(onnxGraph graph);
ONNXIFI_PUBLIC onnxStatus ONNXIFI_ABI onnxReleaseGraph(onnxGraph graph);

/* ---- Extensions ---- */

typedef onnxStatus(ONNXIFI_ABI* onnxExtensionFunctionPointer)(void);

/* Looks up a function that ONNXIFI_BACKEND_EXTENSIONS lists. UNIDENTIFIED_NAME and *function = NULL when there is none.
 */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetExtensionFunctionAddressFunction)(
    onnxBackendID backendID, const char* name, onnxExtensionFunctionPointer* function);
ONNXIFI_PUBLIC ONNXIFI_CHECK_RESULT onnxStatus ONNXIFI_ABI
onnxGetExtensionFunctionAddress(onnxBackendID backendID, const char* name, onnxExtensionFunctionPointer* function);

/* One entry of a trace: type 'B' begin, 'E' end, 'I' instant, 'X' complete; times in microseconds since the epoch. */
typedef struct onnxTraceEvent {
  char eventName[33];
  char eventType;
  uint64_t timestamp;
  uint32_t tid;
  uint64_t duration;
} onnxTraceEvent;

typedef struct onnxTraceEventList {
  uint64_t numEvents;
  onnxTraceEvent** traceEvents; /* released by onnxReleaseTraceEvents */
} onnxTraceEventList;

/* onnxSetGraphIO and onnxRunGraph in one call, without an input fence. traceEvents may be NULL. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxSetIOAndRunGraphFunction)(
    onnxGraph graph, uint32_t inputsCount, const onnxTensorDescriptorV1* inputDescriptors, uint32_t outputsCount,
    const onnxTensorDescriptorV1* outputDescriptors, onnxMemoryFenceV1* outputFence, onnxTraceEventList* traceEvents);

/* Waits at most timeoutMs (0: for ever). *state tells the event's state; after a failed run *status and message (of
 * *length bytes, the true length is stored) tell why. A time-out is a SUCCESS with state NONSIGNALLED. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxWaitEventForFunction)(onnxEvent event, uint32_t timeoutMs,
                                                                               onnxEventState* state,
                                                                               onnxStatus* status, char* message,
                                                                               size_t* length);

typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxReleaseTraceEventsFunction)(onnxTraceEventList* traceEvents);

/* The outer dimension of the inputs of the latest run on the calling process. */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetCurrentBatchSizeFunction)(int64_t* batchSize);

/* Options of the library as text: "threads" (threads of graphs made from now on). */
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxSetOptionFunction)(const char* optionName,
                                                                            const char* optionValue);
typedef ONNXIFI_CHECK_RESULT onnxStatus(ONNXIFI_ABI* onnxGetOptionFunction)(const char* optionName, char* optionValue,
                                                                            size_t* optionValueLength);

/* Graph property: 1 records a trace event for every node of a run. */
#define ONNXIFI_GRAPH_PROPERTY_AUTO_INSTRUMENT_NODES 1

#ifdef __cplusplus
}
#endif

#endif /* ONNXIFI_H */
