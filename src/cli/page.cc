#include "cli/page.h"

namespace smelt::cli {

extern const char* const kInspectPage;  // page/inspect.html, embedded by the build

std::string inspect_page(const nlohmann::json& description) {
  std::string data = description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // No tag or comment inside a string ends or opens anything: "<" is only ever within strings.
  for (size_t at = 0; (at = data.find('<', at)) != std::string::npos; at += 6) data.replace(at, 1, "\\u003c");
  std::string page = kInspectPage;
  const std::string mark = "/*MODEL*/null";
  page.replace(page.find(mark), mark.size(), data);
  return page;
}

}  // namespace smelt::cli
