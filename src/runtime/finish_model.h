#pragma once

#include "formats/format.h"
#include "smelt/model.h"

namespace smelt {

/// What follows a reader's work: labels the module, keeps the source's owner and verifies what came out.
Result<Model> finish_model(Module module, const Source& source, const char* format);

}  // namespace smelt
