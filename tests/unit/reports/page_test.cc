#include "reports/html/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

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

}  // namespace
}  // namespace plumbline::reports
