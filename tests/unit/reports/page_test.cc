#include "reports/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/example_result.h"
#include "tests/support/gunzipped.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using Integers = std::vector<std::int64_t>;
using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::string document = R"({"plumbline": {"output": "memory"}, "name": "</script><script>alert(1)</script>"})";
const PageOrigin page_origin{"plumbline memory 'a b'", "0123abc", "2026-11-23 10:00 UTC"};

// Returns the data of the first block of that name.
nlohmann::json block(const std::string& page, const std::string& name) {
  const std::string head = "data-block=\"" + name + "\">\n";
  const std::size_t begin = page.find(head) + head.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Page, CarriesResultsAndOriginAsData) {
  const std::string page = page_html({{document, R"({"spans": [1]})", {}}, {document, {}, "b.json"}}, page_origin);
  EXPECT_EQ(block(page, "result"), nlohmann::json::parse(document));
  EXPECT_EQ(block(page, "extra")["spans"][0], 1);
  EXPECT_EQ(block(page, "made-by")["command"], page_origin.command);
  EXPECT_EQ(block(page, "made-by")["date"], page_origin.date);
  EXPECT_EQ(tests::count(page, "data-block=\"result\">"), 2u);
  EXPECT_THAT(page, HasSubstr("data-block=\"name\">\n\"b.json\""));
  EXPECT_THAT(page, HasSubstr("data-block=\"extra\">\nnull"));
}

TEST(Page, NoTextOfAResultBecomesMarkup) {
  const std::string page = page_html({{document, {}, "<b>"}}, {"plumbline memory '<i>'", "", ""});
  for (const char* part : {"alert(1)</script>", "<b>\"", "'<i>'"}) EXPECT_THAT(page, Not(HasSubstr(part))) << part;
}

TEST(Page, OnlyTheLineOfTheDateDiffers) {
  PageOrigin later = page_origin;
  later.date = "2027-01-01 00:00 UTC";
  const std::string first = page_html({{document}}, page_origin), second = page_html({{document}}, later);
  std::string moved = first;
  moved.replace(moved.find(page_origin.date), page_origin.date.size(), later.date);
  EXPECT_EQ(moved, second);
}

TEST(Page, LoadsNothing) {
  const std::string page = page_html({}, page_origin);
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* part : {"<link", "src=\"http", "@import", "url(http"})
    EXPECT_THAT(page, Not(HasSubstr(part))) << part;
  EXPECT_LT(page.size(), 1'000'000u);
}

TEST(Page, ReadsStoredResultsOnly) {
  const auto stored = read_page_result(document, "a.json");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->name, "a.json");
  EXPECT_EQ(stored->json, document);
  for (const char* text : {"no JSON", "[]", "{}", R"({"plumbline": 1})", R"({"plumbline": {"version": "1"}})"}) {
    const auto refused = read_page_result(text, "a.json");
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().file, "a.json");
    EXPECT_THAT(refused.error().hint, HasSubstr("--json"));
  }
}

std::string bytes_of_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned held = 0, bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    held = (held << 6) | static_cast<unsigned>(digits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((held >> bits) & 0xff);
  }
  return bytes;
}

// Reads columns in the form that the header describes.
class PackedReader {
 public:
  explicit PackedReader(const Json& packed) : bytes_(tests::gunzipped(bytes_of_base64(packed))) {}

  Integers column(std::size_t count) {
    Integers values;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < count; ++i) values.push_back(last += integer());
    return values;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::int64_t integer() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes_.at(at_++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

Json data_of(const model::Timeline& timeline, const std::vector<Comparison>& published = {}) {
  return Json::parse(step_page_data({{"", &timeline, support::example_rank_names(), "step", ""}}, published));
}

TEST(TimelineData, HoldsEverySpanAndCounter) {
  model::Timeline timeline = support::example_timeline();
  timeline.spans[1].stage = 3;
  timeline.spans[1].overlapped_micro_batch = 70'000;
  timeline.counters = {{1, "memory (bytes)", {"state", "activations"}, {{0, {6e10, 0}}, {2'000'000, {6e10, 1.4}}}}};
  const Json data = data_of(timeline)["timelines"][0];
  ASSERT_EQ(data["count"], timeline.spans.size());
  PackedReader reader(data["packed"]);
  std::map<std::string, Integers> columns;
  for (const std::string name : data["columns"]) columns[name] = reader.column(timeline.spans.size());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const model::Span& span = timeline.spans[i];
    EXPECT_EQ(columns["name"][i], span.name);
    EXPECT_EQ(columns["rank"][i], span.rank);
    EXPECT_EQ(columns["stream"][i], static_cast<int>(span.stream));
    EXPECT_EQ(columns["depth"][i], span.depth);
    EXPECT_EQ(columns["start"][i], span.start_ps / 1000);
    EXPECT_EQ(columns["end"][i], span.end_ps() / 1000);
    EXPECT_EQ(columns["layer"][i], span.layer);
    EXPECT_EQ(columns["micro_batch"][i], span.micro_batch);
    EXPECT_EQ(columns["stage"][i], span.stage);
    EXPECT_EQ(columns["backward_micro_batch"][i], span.overlapped_micro_batch);
  }
  ASSERT_EQ(data["counters"][0]["count"], 2);
  EXPECT_EQ(reader.column(2), (Integers{0, 2000}));
  EXPECT_EQ(reader.column(2), (Integers{60'000'000'000, 60'000'000'000}));
  EXPECT_EQ(reader.column(2), (Integers{0, 1}));
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(data["names"], timeline.names);
  EXPECT_EQ(data["ranks"], support::example_rank_names());
}

TEST(TimelineData, LeavesOutTimelinesWithoutSpans) {
  const Json data = data_of({}, {{"step time", "s", 17.6, 19.9, "a paper"}});
  EXPECT_TRUE(data["timelines"].empty());
  EXPECT_EQ(data["published"][0]["published"], 19.9);
  EXPECT_EQ(data["published"][0]["source"], "a paper");
}

// A thousand times the example's spans take less than five bytes each.
TEST(TimelineData, IsCompact) {
  const model::Timeline timeline = support::example_timeline(20'000);
  const std::string text = data_of(timeline)["timelines"][0]["packed"];
  EXPECT_LT(text.size(), timeline.spans.size() * 5);
}

}  // namespace
}  // namespace plumbline::reports
