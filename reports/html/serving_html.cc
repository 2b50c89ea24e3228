#include "reports/html/detail/html_page.h"
#include "reports/text/serving/serving_report.h"

namespace plumbline::reports {

std::string serving_html(const ServingReport& report) {
  std::vector<std::string> head = serving_head(report);
  std::string out = html_head(escape_html(head.front())) + "<body>\n";
  out += fmt::format("<h1>{}</h1>\n<p class=\"soft\">{}; {}</p>\n", escape_html(head[0]), escape_html(head[1]),
                     escape_html(head[2]));
  const std::vector<TitledTable> tables = serving_tables(report);
  out += html_section(tables.front(), "The answer");
  out += html_section("Interactivity and throughput",
                      "Each point is a number of requests in flight: more of them give a GPU more tokens and a user "
                      "fewer.",
                      serving_svg(report));
  for (std::size_t i = 1; i < tables.size(); ++i) out += html_section(tables[i], "");
  return out + html_section("What it rests on", "", html_paragraphs(serving_sentences(report))) +
         html_end(report.inputs.plan);
}

}  // namespace plumbline::reports
