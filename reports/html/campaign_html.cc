#include <fmt/format.h>

#include "model/base/version.h"
#include "reports/html/detail/html_page.h"
#include "reports/text/campaign/campaign_report.h"
#include "reports/text/format.h"
#include "reports/text/step/describe.h"

namespace plumbline::reports {
namespace {

std::string html_table(const CampaignTable& table) {
  const std::vector<Column> columns = columns_of(table.columns);
  const auto cell = [&](std::size_t column, const char* tag, const std::string& text) {
    return fmt::format("<{0}{1}>{2}</{0}>", tag, columns[column].align == Align::right ? " class=\"number\"" : "",
                       escape_html(text));
  };
  std::string out = "<table>\n<tr>";
  for (std::size_t i = 0; i < columns.size(); ++i) out += cell(i, "th", columns[i].title);
  out += "</tr>\n";
  for (const std::vector<std::string>& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < columns.size(); ++i) out += cell(i, "td", i < row.size() ? row[i] : "");
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

}  // namespace

std::string campaign_html(const CampaignReport& report) {
  const std::string name = escape_html(model_name(report.plan));
  std::string out = html_head(fmt::format("{}: a whole training", name)) + "<body>\n";
  out += fmt::format("<h1>What training {} takes with its failures</h1>\n<p class=\"soft\">{}; {}</p>\n", name,
                     escape_html(hardware(report.plan, report.step)), escape_html(parallelism(report.plan)));
  if (const std::string never = never_sentence(report); !never.empty())
    out += fmt::format("<p class=\"warning\">{}</p>\n", escape_html(never));
  for (const CampaignTable& table : campaign_tables(report))
    out += html_section(table.title.empty() ? "The whole training" : escape_html(table.title), escape_html(table.note),
                        html_table(table));
  out += html_section("One campaign", "Tokens trained over days, and each interruption.", campaign_svg(report));
  std::string sentences;
  for (const std::string& sentence : campaign_sentences(report))
    sentences += fmt::format("<p>{}</p>\n", escape_html(sentence));
  out += html_section("What it rests on", "", sentences);
  return out + fmt::format(
                   "<section><details><summary>The effective plan, every default written out</summary>\n<pre>{}</pre>"
                   "</details></section>\n<p class=\"soft\">Made by plumbline {}.</p>\n</body>\n</html>\n",
                   escape_html(model::to_toml(report.plan)), model::version);
}

}  // namespace plumbline::reports
