#include "cli/page.h"

#include <string>

#include "base/error.h"
#include "cli/page_constants.h"
#include "cli/page_text.h"
#include "cli/report.h"
#include "graph/graph.h"

namespace smelt::cli {

namespace {

/// A description whose constants have the index of their contents in `constants` as "data".
Result<Json> describe_with_constants(const Model& model, const SessionOptions& on, const DimensionOptions& sizes,
                                     const FileAttributes* stated, bool optimised, ConstantTable& constants) {
  std::shared_ptr<const Module> module;
  SMELT_ASSIGN(Json out, describe_model(model, on, sizes, optimised, &module, stated));
  for (size_t g = 0; g < module->graphs.size(); ++g) {
    const auto& values = module->graphs[g].values;
    for (size_t v = 0; v < values.size(); ++v)
      if (values[v].constant) out["graphs"][g]["values"][v]["data"] = constants.add(*values[v].constant);
  }
  return out;
}

/// Checks that each row of a profile names a node of the optimised description.
Status check_profile(const Json& profile, const Json& optimised) {
  if (!profile.is_array()) return InvalidInput("the profile is no list of nodes, as bench --profile writes it");
  for (size_t i = 0; i < profile.size(); ++i) {
    const Json& row = profile[i];
    const bool whole = row.is_object() && row.value("graph", Json()).is_unsigned() &&
                       row.value("index", Json()).is_unsigned() && row.value("micros_per_run", Json()).is_number() &&
                       row.value("op", Json()).is_string();
    if (!whole) return InvalidInput("row ", i, " of the profile lacks graph, index, op or micros_per_run");
    const size_t graph = row["graph"], index = row["index"];
    const Json& graphs = optimised["graphs"];
    if (graph >= graphs.size() || index >= graphs[graph]["nodes"].size() ||
        graphs[graph]["nodes"][index]["op"] != row["op"])
      return InvalidInput("row ", i, " of the profile is of another model: no ", row["op"].get<std::string>(),
                          " at node ", index, " of graph ", graph);
  }
  return Ok();
}

}  // namespace

Result<std::string> inspect_page(const Model& model, const SessionOptions& on, const DimensionOptions& sizes,
                                 const PageOptions& options) {
  ConstantTable constants;
  Json data = {{"show", options.optimised ? "optimised" : "file"}, {"profile", options.profile}};
  SMELT_ASSIGN(data["file"], describe_with_constants(model, on, sizes, options.stated, false, constants));
  auto optimised = describe_with_constants(model, on, sizes, options.stated, true, constants);
  if (optimised.ok())
    data["optimised"] = {{"graphs", std::move((*optimised)["graphs"])}};
  else if (options.optimised || !options.profile.is_null())
    return optimised.error();
  else
    data["optimised_error"] = optimised.error().message();
  if (!options.profile.is_null()) SMELT_TRY(check_profile(options.profile, data["optimised"]));
  data["constants"] = constants.take();
  const std::string page = inspect_page_text(), mark = "/*DATA*/";
  const size_t at = page.find(mark);
  std::string out = page.substr(0, at);
  // No tag or comment inside a string ends or opens anything: "<" is only ever within strings.
  for (const char c : data.dump())
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  out += page.substr(at + mark.size());
  return out;
}

}  // namespace smelt::cli
