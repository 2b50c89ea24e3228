#include "cli/detail/page_origin.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "cli/data.h"
#include "model/base/text.h"

namespace plumbline::cli {
namespace {

// Returns the word in quotes where a shell would take it for something else.
std::string shell_word(std::string_view word) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// Returns " --gpus 8,16": the option with its values.
std::string option_words(const CLI::Option& option) {
  std::vector<std::string> values = option.results();
  const std::string name = option.get_positional() ? "" : " " + option.get_name();
  if (option.get_items_expected_max() == 0) return name;
  if (option.get_delimiter() != '\0')
    values = {fmt::format("{}", fmt::join(values, std::string(1, option.get_delimiter())))};
  std::string words;
  for (const std::string& value : values) words += fmt::format("{} {}", name, shell_word(value));
  return words;
}

std::string command_words(const CLI::App& verb) {
  std::string words = "plumbline " + verb.get_name();
  std::vector<const CLI::Option*> options = verb.get_options();
  std::ranges::stable_partition(options, [](const CLI::Option* option) { return option->get_positional(); });
  for (const CLI::Option* option : options)
    if (option->count() > 0) words += option_words(*option);
  return words;
}

std::time_t page_time() {
  const char* fixed = std::getenv("SOURCE_DATE_EPOCH");
  const auto seconds = model::parse_number<std::int64_t>(fixed == nullptr ? "" : fixed);
  return seconds ? static_cast<std::time_t>(*seconds) : std::time(nullptr);
}

}  // namespace

reports::PageOrigin page_origin(const CLI::App& verb) {
  return {command_words(verb), source_revision(), fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(page_time()))};
}

}  // namespace plumbline::cli
