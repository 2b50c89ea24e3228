// Text of users within pages and pictures.
#include <gtest/gtest.h>

#include "reports/text/table.h"

namespace plumbline::reports {
namespace {

TEST(EscapedHtml, HasNoMarkupAndOnlyCharactersOfXml) {
  EXPECT_EQ(escape_html("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape_html("tab\tline\n"), "tab\tline\n");
  EXPECT_EQ(escape_html("bell\a escape\x1b[31m"), "bell\uFFFD escape\uFFFD[31m");
  EXPECT_EQ(escape_html("größer"), "größer");
}

}  // namespace
}  // namespace plumbline::reports
