#include "model/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "model/base/text.h"

namespace plumbline::model {
namespace {

// Returns the number of edits (insert, delete, replace, swap of adjacent letters) from one name to the other. Swaps
// count once because they are the most common typing error.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_previous(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
    std::swap(before_previous, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Whether the byte of UTF-8 is not the first of its character.
bool is_continuation(char byte) {
  constexpr unsigned mask = 0xc0, continuation = 0x80;
  return (static_cast<unsigned char>(byte) & mask) == continuation;
}

// Returns the text with words that are longer than usual names cut, at a whole character: files of one long line
// are quoted in messages that are read on a terminal.
std::string without_long_words(std::string_view text) {
  constexpr std::size_t longest = 1000, kept = 100;
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    std::size_t shown = end > longest ? kept : end;
    if (end > longest)
      while (shown > 0 && is_continuation(text[shown])) --shown;
    out += text.substr(0, shown);
    if (shown < end) out += fmt::format("... ({} bytes)", end);
    out += text.substr(end, 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Whether the whole begins or ends with the part as a word: "h100-sxm" with "h100", "cluster.gpus" with "gpus".
bool is_word_of(std::string_view part, std::string_view whole) {
  constexpr std::string_view between = "-._";
  if (part.empty() || part.size() >= whole.size()) return false;
  const auto is_between = [&](char c) { return between.find(c) != std::string_view::npos; };
  return (whole.starts_with(part) && is_between(whole[part.size()])) ||
         (whole.ends_with(part) && is_between(whole[whole.size() - part.size() - 1]));
}

// Returns the candidate of which the name is a word, or the other way round, that is closest in length; "" if none is.
std::string nearest_by_word(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  const auto longer_by = [&](std::string_view candidate) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    return longer - shorter;
  };
  for (const std::string& candidate : candidates)
    if (is_word_of(name, lower_case(candidate)) || is_word_of(lower_case(candidate), name))
      if (best.empty() || longer_by(candidate) < longer_by(best)) best = candidate;
  return best;
}

}  // namespace

Failure wrong_input(std::string key, std::string message, std::string hint) {
  return wrong_input_at("", 0, std::move(key), std::move(message), std::move(hint));
}

Failure wrong_input_at(std::string file, int line, std::string key, std::string message, std::string hint) {
  return Failure({ErrorKind::input, std::move(message), std::move(file), line, std::move(key), std::move(hint)});
}

Failure infeasible(std::string key, std::string message, std::string hint) {
  return Failure({ErrorKind::infeasible, std::move(message), "", 0, std::move(key), std::move(hint)});
}

Failure interrupted(std::string key, std::string message) {
  return Failure({ErrorKind::interrupted, std::move(message), "", 0, std::move(key), ""});
}

std::string to_string(const Error& error) {
  std::string text;
  if (!error.file.empty()) {
    text += error.file;
    if (error.line > 0) text += ":" + std::to_string(error.line);
    text += ": ";
  }
  if (!error.key.empty()) text += error.key + ": ";
  text += error.message;
  if (!error.hint.empty()) text += " (" + error.hint + ")";
  return printable(without_long_words(text));
}

std::string reason_of(const Error& error) {
  return error.key.empty() ? error.message : error.key + ": " + error.message;
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string wanted = lower_case(name);
  std::string best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({name.size(), candidate.size()});
    if ((longer - shorter) * 3 > longer) continue;  // each letter more is an edit
    const std::size_t distance = edit_distance(wanted, lower_case(candidate));
    const bool close = distance * 3 <= longer;
    if (close && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates,
                         std::string_view otherwise) {
  std::string nearest = nearest_name(name, candidates);
  if (nearest.empty()) nearest = nearest_by_word(lower_case(name), candidates);
  return nearest.empty() ? std::string(otherwise) : "did you mean '" + nearest + "'?";
}

std::string did_you_mean_before(std::string_view name, const std::vector<std::string>& candidates,
                                std::string_view rest) {
  const std::string nearest = did_you_mean(name, candidates);
  return (nearest.empty() ? "" : nearest + " ") + std::string(rest);
}

std::string known_names(std::string_view name, const std::vector<std::string>& candidates) {
  return did_you_mean_before(name, candidates, fmt::format("known: {}", fmt::join(candidates, ", ")));
}

}  // namespace plumbline::model
