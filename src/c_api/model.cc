#include <algorithm>

#include "base/suggest.h"
#include "c_api/handles.h"
#include "smelt/custom_operator.h"

using namespace smelt;         // NOLINT(google-global-names-in-headers)
using namespace smelt::c_api;  // NOLINT(google-global-names-in-headers)

static_assert(SMELT_INTERNAL == static_cast<int>(ErrorCode::kInternal) + 1);
static_assert(SMELT_COMPLEX128 == static_cast<int>(DType::kC128) && SMELT_BOOL == static_cast<int>(DType::kBool));
static_assert(SMELT_MAP == static_cast<int>(Datum::Kind::kMap) && SMELT_MAX_RANK == Shape::kMaxRank);
static_assert(SMELT_LOG_WARNING == static_cast<int>(LogLevel::kWarning));

smelt_model::smelt_model(const Model& m) : model(m), methods(model.methods()) {
  for (const std::string& name : methods) ports[name] = {model.inputs(name), model.outputs(name)};
}

const smelt_model::Ports* smelt_model::find(const char* method) const {
  const auto at = ports.find(method && *method ? method : methods[0]);
  return at == ports.end() ? nullptr : &at->second;
}

namespace {

thread_local std::string last_message;

const char* at(const std::vector<std::string>& list, size_t index) {
  return index < list.size() ? list[index].c_str() : nullptr;
}

Result<LoadOptions> load_options(const smelt_load_options* given) {
  SMELT_ASSIGN(const auto o, read_struct(given, smelt_load_options SMELT_LOAD_OPTIONS_INIT));
  const auto list = [](const char* const* texts, size_t count) {
    std::vector<std::string> out;
    for (size_t i = 0; texts && i < count; ++i) out.push_back(text(texts[i]));
    return out;
  };
  LoadOptions out;
  out.data_files = list(o.data_files, o.data_file_count);
  out.tolerate = list(o.tolerate, o.tolerate_count);
  out.log = log_sink(o.log, o.log_context);
  for (const std::string& library : list(o.operator_libraries, o.operator_library_count)) {
    SMELT_ASSIGN(const auto operators, load_custom_operators(library));
    out.custom_operators.insert(out.custom_operators.end(), operators.begin(), operators.end());
  }
  return out;
}

smelt_kind kind_of(const Port& p) {
  if (p.is_tensor) return SMELT_TENSOR;
  return p.optional ? SMELT_NONE : SMELT_SEQUENCE;
}

enum class Side : bool { kInputs, kOutputs };

Result<const std::vector<Port>*> ports_of(const smelt_model* model, const char* method, Side side) {
  SMELT_TRY(require(model, "model"));
  const smelt_model::Ports* found = model->find(method);
  if (!found) return InvalidInput(not_among("method", text(method), model->methods));
  return side == Side::kInputs ? &found->inputs : &found->outputs;
}

size_t count_of(const smelt_model* model, const char* method, Side side) {
  const auto ports = ports_of(model, method, side);
  return ports.ok() ? (*ports)->size() : 0;
}

smelt_status describe(const smelt_model* model, const char* method, Side side, size_t index, smelt_port* to) {
  return call([&]() -> Status {
    SMELT_ASSIGN(const auto* ports, ports_of(model, method, side));
    if (index >= ports->size()) return InvalidInput("port ", index, " of ", ports->size());
    const Port& p = (*ports)[index];
    smelt_port out = SMELT_PORT_INIT;
    out.name = p.name.c_str();
    out.kind = kind_of(p);
    out.optional = p.optional;
    out.type = static_cast<smelt_type>(p.dtype);
    out.rank = p.ranked ? p.shape.rank() : -1;
    for (int i = 0; i < out.rank; ++i) out.dims[i] = p.shape[i];
    if (p.quant && p.quant->kind == Quantization::Kind::kPerTensor) {
      out.scale = p.quant->scale();
      out.zero_point = p.quant->zero_point();
    }
    return write_struct(to, out);
  });
}

smelt_status find(const smelt_model* model, const char* method, Side side, const char* name, size_t* index) {
  return call([&]() -> Status {
    SMELT_TRY(require(index, "index"));
    SMELT_ASSIGN(const auto* ports, ports_of(model, method, side));
    std::vector<std::string> names;
    for (const Port& p : *ports) names.push_back(p.name);
    const auto found = std::ranges::find(names, text(name));
    if (found == names.end())
      return InvalidInput(not_among(side == Side::kInputs ? "input" : "output", text(name), names));
    *index = static_cast<size_t>(found - names.begin());
    return Ok();
  });
}

}  // namespace

smelt_status smelt::c_api::failed(const Error& error) noexcept {
  try {
    last_message = error.message();
  } catch (const std::bad_alloc&) {
    last_message.clear();
  }
  return static_cast<smelt_status>(static_cast<int>(error.code()) + 1);
}

extern "C" {

const char* smelt_version(void) { return version(); }
const char* smelt_error_message(void) { return last_message.c_str(); }
const char* smelt_type_name(smelt_type type) { return to_string(static_cast<DType>(type)); }
const char* smelt_status_name(smelt_status status) {
  return status == SMELT_OK ? "ok" : to_string(static_cast<ErrorCode>(static_cast<int>(status) - 1));
}

smelt_status smelt_model_load(const char* path, const smelt_load_options* options, smelt_model** model) {
  return make(model, [&]() -> Result<std::unique_ptr<smelt_model>> {
    SMELT_TRY(require(path, "path"));
    SMELT_ASSIGN(const LoadOptions o, load_options(options));
    SMELT_ASSIGN(const Model loaded, Model::load(path, o));
    return std::make_unique<smelt_model>(loaded);
  });
}

smelt_status smelt_model_load_bytes(const void* bytes, size_t size, const char* name, const smelt_load_options* options,
                                    smelt_model** model) {
  return make(model, [&]() -> Result<std::unique_ptr<smelt_model>> {
    if (size > 0) SMELT_TRY(require(bytes, "bytes"));
    SMELT_ASSIGN(const LoadOptions o, load_options(options));
    SMELT_ASSIGN(const Model loaded, Model::load_bytes({static_cast<const std::byte*>(bytes), size}, nullptr,
                                                       name ? name : "model", "", o));
    return std::make_unique<smelt_model>(loaded);
  });
}

void smelt_model_free(smelt_model* model) { delete model; }
const char* smelt_model_format(const smelt_model* model) { return model ? model->model.format().c_str() : ""; }
const char* smelt_model_producer(const smelt_model* model) { return model ? model->model.producer().c_str() : ""; }

size_t smelt_model_metadata_count(const smelt_model* model) { return model ? model->model.metadata().size() : 0; }
const char* smelt_model_metadata_key(const smelt_model* model, size_t index) {
  return index < smelt_model_metadata_count(model) ? model->model.metadata()[index].first.c_str() : nullptr;
}
const char* smelt_model_metadata_value(const smelt_model* model, size_t index) {
  return index < smelt_model_metadata_count(model) ? model->model.metadata()[index].second.c_str() : nullptr;
}
size_t smelt_model_label_count(const smelt_model* model) { return model ? model->model.labels().size() : 0; }
const char* smelt_model_label(const smelt_model* model, size_t index) {
  return model ? at(model->model.labels(), index) : nullptr;
}
size_t smelt_model_method_count(const smelt_model* model) { return model ? model->methods.size() : 0; }
const char* smelt_model_method(const smelt_model* model, size_t index) {
  return model ? at(model->methods, index) : nullptr;
}
size_t smelt_model_warning_count(const smelt_model* model) { return model ? model->model.warnings().size() : 0; }
const char* smelt_model_warning(const smelt_model* model, size_t index) {
  return model ? at(model->model.warnings(), index) : nullptr;
}

size_t smelt_model_input_count(const smelt_model* model, const char* method) {
  return count_of(model, method, Side::kInputs);
}
size_t smelt_model_output_count(const smelt_model* model, const char* method) {
  return count_of(model, method, Side::kOutputs);
}
smelt_status smelt_model_input(const smelt_model* model, const char* method, size_t index, smelt_port* port) {
  return describe(model, method, Side::kInputs, index, port);
}
smelt_status smelt_model_output(const smelt_model* model, const char* method, size_t index, smelt_port* port) {
  return describe(model, method, Side::kOutputs, index, port);
}
smelt_status smelt_model_find_input(const smelt_model* model, const char* method, const char* name, size_t* index) {
  return find(model, method, Side::kInputs, name, index);
}
smelt_status smelt_model_find_output(const smelt_model* model, const char* method, const char* name, size_t* index) {
  return find(model, method, Side::kOutputs, name, index);
}

smelt_status smelt_model_with_outputs(const smelt_model* model, const char* method, const char* const* names,
                                      size_t count, smelt_model** chosen) {
  return make(chosen, [&]() -> Result<std::unique_ptr<smelt_model>> {
    SMELT_TRY(require(model, "model"));
    if (count > 0) SMELT_TRY(require(static_cast<const void*>(names), "names"));
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) list.push_back(text(names[i]));
    SMELT_ASSIGN(Model made, model->model.with_outputs(list, text(method)));
    return std::make_unique<smelt_model>(std::move(made));
  });
}

}  // extern "C"
