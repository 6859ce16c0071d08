#include "c_api/handles.h"

using namespace smelt;         // NOLINT(google-global-names-in-headers)
using namespace smelt::c_api;  // NOLINT(google-global-names-in-headers)

namespace {

Result<SessionOptions> session_options(const smelt_session_options* given) {
  SMELT_ASSIGN(const auto o, read_struct(given, smelt_session_options SMELT_SESSION_OPTIONS_INIT));
  SessionOptions out;
  if (o.backend) out.backend = o.backend;
  out.method = text(o.method);
  if (o.threads != 0) out.threads = o.threads;
  out.device = o.device;
  out.fp16 = o.fp16 != 0;
  out.profile = o.profile != 0;
  out.seed = o.seed;
  out.limit_memory = o.limit_memory;
  out.limit_steps = o.limit_steps;
  out.limit_seconds = o.limit_seconds;
  if (o.pool) out.thread_pool = o.pool->pool;
  out.log = log_sink(o.log, o.log_context);
  if (o.isa) out.isa = o.isa;
  if (o.arithmetic != SMELT_ARITHMETIC_REFERENCE && o.arithmetic != SMELT_ARITHMETIC_LITERT_XNNPACK)
    return InvalidInput("arithmetic is ", int{o.arithmetic}, ", 0 or 1 expected");
  if (o.arithmetic == SMELT_ARITHMETIC_LITERT_XNNPACK) out.arithmetic = Arithmetic::kLiteRtXnnpack;
  out.deterministic = o.deterministic != 0;
  out.strict_types = o.strict_types != 0;
  return out;
}

Status check_count(size_t given, size_t wanted) {
  if (given == wanted) return Ok();
  return InvalidInput(given, " outputs expected by the caller, the method has ", wanted);
}

/// Hands values over to the caller, all or none.
void give(std::vector<Datum> values, smelt_value** to) {
  std::vector<std::unique_ptr<smelt_value>> made;
  for (Datum& d : values) made.push_back(std::make_unique<smelt_value>(smelt_value{std::move(d)}));
  for (size_t i = 0; i < made.size(); ++i) to[i] = made[i].release();
}

}  // namespace

extern "C" {

smelt_status smelt_pool_create(int32_t threads, smelt_pool** pool) {
  return make(pool, [&]() -> Result<std::unique_ptr<smelt_pool>> {
    SMELT_ASSIGN(auto made, make_thread_pool(threads));
    return std::make_unique<smelt_pool>(smelt_pool{std::move(made)});
  });
}

void smelt_pool_free(smelt_pool* pool) { delete pool; }

smelt_status smelt_session_create(const smelt_model* model, const smelt_session_options* options,
                                  smelt_session** session) {
  return make(session, [&]() -> Result<std::unique_ptr<smelt_session>> {
    SMELT_TRY(require(model, "model"));
    SMELT_ASSIGN(const SessionOptions o, session_options(options));
    SMELT_ASSIGN(Session made, Session::create(model->model, o));
    return std::make_unique<smelt_session>(smelt_session{std::move(made)});
  });
}

void smelt_session_free(smelt_session* session) { delete session; }

smelt_status smelt_session_run(smelt_session* session, const smelt_value* const* inputs, size_t input_count,
                               smelt_value** outputs, size_t output_count) {
  for (size_t i = 0; outputs && i < output_count; ++i) outputs[i] = nullptr;
  return call([&]() -> Status {
    SMELT_TRY(require(session, "session"));
    if (input_count > 0) SMELT_TRY(require(static_cast<const void*>(inputs), "inputs"));
    if (output_count > 0) SMELT_TRY(require(static_cast<const void*>(outputs), "outputs"));
    SMELT_ASSIGN(auto results, session->session.run(data_of(inputs, input_count)));
    SMELT_TRY(check_count(output_count, results.size()));
    give(std::move(results), outputs);
    return Ok();
  });
}

smelt_status smelt_session_run_into(smelt_session* session, const smelt_value* const* inputs, size_t input_count,
                                    smelt_value* const* outputs, size_t output_count) {
  return call([&]() -> Status {
    SMELT_TRY(require(session, "session"));
    if (input_count > 0) SMELT_TRY(require(static_cast<const void*>(inputs), "inputs"));
    if (output_count > 0) SMELT_TRY(require(static_cast<const void*>(outputs), "outputs"));
    std::vector<Tensor> buffers;
    for (size_t i = 0; i < output_count; ++i) {
      if (!outputs[i] || !outputs[i]->datum.is_tensor()) return InvalidInput("output ", i, " is no tensor to write to");
      buffers.push_back(outputs[i]->datum.tensor);
    }
    return session->session.run_into(data_of(inputs, input_count), buffers);
  });
}

smelt_status smelt_session_run_async(smelt_session* session, const smelt_value* const* inputs, size_t input_count,
                                     smelt_done_function done, void* context) {
  return call([&]() -> Status {
    SMELT_TRY(require(session, "session"));
    if (!done) return InvalidInput("done is NULL");
    if (input_count > 0) SMELT_TRY(require(static_cast<const void*>(inputs), "inputs"));
    session->session.run_async(data_of(inputs, input_count), [done, context](Result<std::vector<Datum>> results) {
      std::vector<smelt_value*> values;
      const smelt_status status = call([&]() -> Status {
        if (!results.ok()) return results.error();
        values.resize(results->size());
        give(std::move(results).value(), values.data());
        return Ok();
      });
      done(context, status, status == SMELT_OK ? values.data() : nullptr, status == SMELT_OK ? values.size() : 0);
    });
    return Ok();
  });
}

void smelt_session_cancel(smelt_session* session) {
  if (session) session->session.cancel();
}
void smelt_session_reset_state(smelt_session* session) {
  if (session) session->session.reset_state();
}
const char* smelt_session_isa(const smelt_session* session) { return session ? session->session.isa() : ""; }

smelt_status smelt_session_profile(smelt_session* session, size_t* count) {
  return call([&]() -> Status {
    SMELT_TRY(require(session, "session"));
    SMELT_TRY(require(count, "count"));
    session->profile = session->session.profile();
    *count = session->profile.size();
    return Ok();
  });
}

smelt_status smelt_session_profile_entry(const smelt_session* session, size_t index, smelt_profile_entry* entry) {
  return call([&]() -> Status {
    SMELT_TRY(require(session, "session"));
    if (index >= session->profile.size())
      return InvalidInput("entry ", index, " of a profile of ", session->profile.size());
    const ProfileEntry& e = session->profile[index];
    return write_struct(entry, {sizeof(smelt_profile_entry), e.node.c_str(), e.op.c_str(), e.origin.c_str(),
                                e.kernel.c_str(), e.output.c_str(), e.micros, e.calls, e.graph, e.index});
  });
}

void smelt_session_reset_profile(smelt_session* session) {
  if (session) session->session.reset_profile();
}

}  // extern "C"
