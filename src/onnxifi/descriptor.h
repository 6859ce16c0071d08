#pragma once

#include <onnxifi.h>

#include <map>
#include <string>
#include <vector>

#include "smelt/model.h"

namespace smelt::onnxifi {

/// All tags, before anything else of any descriptor is read.
onnxStatus check_tags(const onnxTensorDescriptorV1* list, uint32_t count);
/// A descriptor's own members, in the documented order; what depends on a model is not looked at.
onnxStatus check_descriptor(const onnxTensorDescriptorV1& d);

/// Values that symbolic dimensions have got.
using Symbols = std::map<std::string, int64_t>;

/// A descriptor against what the model says of the value; binds its symbolic dimensions.
onnxStatus check_fit(const onnxTensorDescriptorV1& d, const Port& port, Symbols& symbols);

/// Matches descriptors to ports by name, checking each. `found` has an entry a port; null where no descriptor names it.
onnxStatus match(const onnxTensorDescriptorV1* list, uint32_t count, const std::vector<Port>& ports, Symbols& symbols,
                 std::vector<const onnxTensorDescriptorV1*>& found);

/// Precondition: check_fit passed.
Shape shape_of(const onnxTensorDescriptorV1& d);

}  // namespace smelt::onnxifi
