#include <fmt/format.h>

#include "reports/html/detail/html_page.h"
#include "reports/text/campaign/campaign_report.h"
#include "reports/text/format.h"
#include "reports/text/step/describe.h"

namespace plumbline::reports {
std::string campaign_html(const CampaignReport& report) {
  const std::string name = escape_html(model_name(report.plan));
  std::string out = html_head(fmt::format("{}: a whole training", name)) + "<body>\n";
  out += fmt::format("<h1>What training {} takes with its failures</h1>\n<p class=\"soft\">{}; {}</p>\n", name,
                     escape_html(hardware(report.plan, report.step.device)), escape_html(parallelism(report.plan)));
  if (const std::string never = never_sentence(report); !never.empty())
    out += fmt::format("<p class=\"warning\">{}</p>\n", escape_html(never));
  for (const TitledTable& table : campaign_tables(report)) out += html_section(table, "The whole training");
  out += html_section("One campaign", "Tokens trained over days, and each interruption.", campaign_svg(report));
  return out + html_section("What it rests on", "", html_paragraphs(campaign_sentences(report))) +
         html_end(report.plan);
}

}  // namespace plumbline::reports
