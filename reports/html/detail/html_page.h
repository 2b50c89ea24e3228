// The parts that all pages share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "model/base/version.h"
#include "model/plan/plan.h"
#include "reports/html/detail/html_style.h"
#include "reports/text/format.h"
#include "reports/text/table.h"

namespace plumbline::reports {

// Returns a card with a heading and a sentence above its body; all are HTML.
inline std::string html_section(std::string_view title, std::string_view lead, const std::string& body) {
  return fmt::format("<section>\n<h2>{}</h2>\n<p class=\"soft\">{}</p>\n{}</section>\n", title, lead, body);
}

// Returns the document up to its body. The title is HTML.
inline std::string html_head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>{}</style>\n</head>\n",
      title, html_style);
}

// Returns a card of a table; `untitled` is the heading of one that has none.
inline std::string html_section(const TitledTable& table, const std::string& untitled) {
  const std::vector<Column> columns = columns_of(table.columns);
  const auto cells = [&](const char* tag, const auto& text) {
    std::string row = "<tr>";
    for (std::size_t i = 0; i < columns.size(); ++i)
      row += fmt::format("<{0}{1}>{2}</{0}>", tag, columns[i].align == Align::right ? " class=\"number\"" : "",
                         escape_html(text(i)));
    return row + "</tr>\n";
  };
  std::string rows = cells("th", [&](std::size_t i) { return columns[i].title; });
  for (const std::vector<std::string>& row : table.rows)
    rows += cells("td", [&](std::size_t i) { return i < row.size() ? row[i] : std::string(); });
  return html_section(escape_html(table.title.empty() ? untitled : table.title), escape_html(table.note),
                      "<table>\n" + rows + "</table>\n");
}

inline std::string html_paragraphs(const std::vector<std::string>& sentences) {
  std::string paragraphs;
  for (const std::string& sentence : sentences) paragraphs += fmt::format("<p>{}</p>\n", escape_html(sentence));
  return paragraphs;
}

// Returns the end of the document: the plan, and what made the page.
inline std::string html_end(const model::Plan& plan) {
  return fmt::format(
      "<section><details><summary>The effective plan, every default written out</summary>\n<pre>{}</pre>"
      "</details></section>\n<p class=\"soft\">Made by plumbline {}.</p>\n</body>\n</html>\n",
      escape_html(model::to_toml(plan)), model::version);
}

}  // namespace plumbline::reports
