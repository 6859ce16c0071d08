// The one place where volk's functions are compiled.
#define VOLK_IMPLEMENTATION
#define VK_NO_PROTOTYPES
#include <volk.h>
