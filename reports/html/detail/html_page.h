// The parts that all pages share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "reports/html/detail/html_style.h"

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

}  // namespace plumbline::reports
