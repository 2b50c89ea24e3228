#include "reports/html/html.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "reports/html/detail/pipeline_svg.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using tests::count;

const std::vector<Comparison> html_comparisons = {{"step <time>", "s", 20.0, 19.926, "a & b"}};

std::string page() {
  return to_html(support::example_result(), support::example_plan(), support::example_timeline(),
                 support::example_rank_names(), html_comparisons);
}

// Every element is closed in order; <meta> and the doctype have no end tag. Text and attributes hold no bare angle
// brackets, so each '<' begins a tag and the next '>' ends it.
void expect_balanced(const std::string& text) {
  std::vector<std::string> open;
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
    const std::size_t end = text.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const bool closing = text[at + 1] == '/';
    const std::size_t name_at = at + (closing ? 2 : 1);
    const std::string name = text.substr(name_at, text.find_first_of(" />", name_at) - name_at);
    if (name == "meta" || name == "!DOCTYPE" || text[end - 1] == '/') continue;
    if (closing) {
      ASSERT_FALSE(open.empty()) << "unexpected </" << name << ">";
      ASSERT_EQ(open.back(), name);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  EXPECT_TRUE(open.empty()) << "left open: " << (open.empty() ? "" : open.back());
}

TEST(Html, TagsBalance) {
  expect_balanced(page());
  expect_balanced(to_html({}, {}, {}, {}, {}));
}

TEST(Html, ShowsTheIntervalAsBars) {
  EXPECT_EQ(page().find("How sure"), std::string::npos);
  auto result = support::example_result();
  result.interval = support::example_interval();
  const std::string text = to_html(result, support::example_plan(), {}, {}, {});
  expect_balanced(text);
  for (const char* part :
       {"Step time<b>21.00 s</b><small>19.00 to 24.00 s in eight of ten cases; 20.00 s from components",
        "2.540 to 3.210 M in eight of ten cases", "fits in 99.8 % of all cases", "How sure is this?",
        "title=\"lower bound: 11.90 s\"", "title=\"middle: 21.00 s\"", "style=\"width:50.000%\"",
        "dispatch and combine at 20 SMs on two of your nodes</td><td class=\"number\">±10.0 %"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
}

TEST(Html, EscapesTextOfPlanAndSources) {
  const std::string text = page();
  EXPECT_NE(text.find("a source &lt;with&gt; &quot;marks&quot; &amp; more"), std::string::npos);
  EXPECT_EQ(text.find("<with>"), std::string::npos);
  EXPECT_NE(text.find("step &lt;time&gt;"), std::string::npos);
  auto plan = support::example_plan();
  plan.model.config = "<script>alert(1)</script>.json";
  const std::string hostile = to_html(support::example_result(), plan, {}, {}, {});
  EXPECT_EQ(hostile.find("<script"), std::string::npos);
}

TEST(Html, IsSelfContained) {
  const std::string text = page();
  for (const char* part : {"http:", "https:", "src=", "<script", "<link", "url(", "@import"}) {
    EXPECT_EQ(text.find(part), std::string::npos) << part;
  }
  EXPECT_NE(text.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(Html, HasEverySection) {
  const std::string text = page();
  for (const char* part : {"What training example-moe costs", "<b>20.00 s</b>", "the plan fits", "+0.4 %", "$5.592 M",
                           "capacity 84.9 GB", "overlapped pair", "launch.gap", "loses against its bound",
                           "GEMM below best rate", "[parallelism]", "assumed"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(Html, SameInputSameBytes) { EXPECT_EQ(page(), page()); }

TEST(PipelineSvg, OneRectanglePerSlot) {
  const auto timeline = support::example_timeline();
  const std::string svg = pipeline_svg(timeline, support::example_rank_names());
  expect_balanced(svg);
  std::size_t slots = 0;
  for (const auto& span : timeline.spans) slots += span.depth == 0;
  EXPECT_EQ(count(svg, "<rect class=\"slot-"), slots);
  EXPECT_EQ(count(svg, "<rect class=\"idle\""), 16u);
  EXPECT_NE(svg.find("FB, micro-batch 3: 133.0 ms"), std::string::npos);
  EXPECT_NE(svg.find("time in seconds"), std::string::npos);
}

TEST(PipelineSvg, ManySlotsBecomePaths) {
  const std::string svg = pipeline_svg(support::example_timeline(1500), {});
  expect_balanced(svg);
  EXPECT_EQ(count(svg, "<path class=\"slot-FB\""), 16u);
  EXPECT_EQ(count(svg, "<rect class=\"slot-"), 0u);
}

TEST(PipelineSvg, NothingToDrawIsEmpty) { EXPECT_EQ(pipeline_svg({}, {}), ""); }

}  // namespace
}  // namespace plumbline::reports
