#include "reports/html/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/version.h"
#include "reports/html/detail/base64_of_gzip.h"
#include "reports/html/detail/page_template.h"
#include "reports/json/document.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view data_mark = "<!--data-->";

// Returns JSON that cannot end the element it stands in: '<' occurs in its strings only, where an escape may replace
// it.
std::string inert(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

std::string data_block(std::string_view name, std::string_view json) {
  return fmt::format("<script type=\"application/json\" data-block=\"{}\">\n{}\n</script>\n", name, inert(json));
}

}  // namespace

std::string page_html(const std::vector<PageResult>& results, const PageOrigin& origin) {
  const Json made_by = {
      {"command", origin.command}, {"version", model::version}, {"revision", origin.revision}, {"date", origin.date}};
  std::string data = data_block("made-by", text_of_json(made_by, 0));
  for (const PageResult& result : results) {
    data += data_block("name", text_of_json(Json(result.name), -1));
    data += data_block("result", result.json);
    data += data_block("extra", result.extra.empty() ? "null" : result.extra);
  }
  std::string page(page_template);
  return page.replace(page.find(data_mark), data_mark.size(), data);
}

model::Result<std::string> playground_html(const PageEngine& engine) {
  constexpr std::string_view mark = "<!--engine-->";
  if (engine.script.find("</script") != std::string::npos || engine.script.find("<!--") != std::string::npos)
    return model::wrong_input("", "the predictor of the playground would end the element it stands in",
                              "build it again with the em++ that docs/playground.md names");
  std::string page(playground_template);
  return page.replace(page.find(mark), mark.size(),
                      fmt::format("<script type=\"text/plain\" id=\"engine\">\n{}\n</script>\n"
                                  "<script type=\"text/plain\" id=\"module\">{}</script>\n"
                                  "<script type=\"application/json\" id=\"shipped\">{}</script>",
                                  engine.script, base64_of_gzip(engine.module), inert(engine.shipped)));
}

model::Result<PageResult> read_page_result(std::string text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  constexpr const char* hint = "give the file that --json of a verb wrote";
  if (json.is_discarded()) return model::wrong_input_at(path, 0, "", "is not JSON", hint);
  const auto frame = json.find("plumbline");
  if (!json.is_object() || frame == json.end() || !frame->is_object() || !frame->contains("output"))
    return model::wrong_input_at(path, 0, "plumbline.output", "is not a result of this command", hint);
  return PageResult{.json = std::move(text), .extra = {}, .name = path};
}

}  // namespace plumbline::reports
