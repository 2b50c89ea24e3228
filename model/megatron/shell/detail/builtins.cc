// getopts and read: commands that take variables from parameters and from input.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/megatron/shell/arithmetic.h"
#include "model/megatron/shell/detail/evaluator.h"

namespace plumbline::model::megatron {
// getopts LETTERS NAME: the next option of the parameters; several letters may share one word.
void Evaluator::run_options(const Fields& fields) {
  const auto number = [this](const char* name, std::int64_t missing) {
    const Fields* value = find(name);
    return value == nullptr || value->empty() ? missing : integer(text_of(value->front())).value_or(missing);
  };
  constexpr const char* place_in_word = "OPTIND.letter";  // no name that a script can have
  const std::string letters = fields.size() > 1 ? text_of(fields[1]) : "";
  const std::int64_t at = number("OPTIND", 1), count = static_cast<std::int64_t>(state_.parameters.size());
  const bool more = fields.size() > 2 && at >= 1 && at <= count;
  const Letters word = more ? state_.parameters[static_cast<std::size_t>(at - 1)] : Letters();
  const std::string written = text_of(word);
  status_ = truth_of(word.size() > 1 && written[0] == '-' && written != "--");
  if (written == "--") assign("OPTIND", {letters_of(std::to_string(at + 1), 0)});
  if (status_ != Truth::yes) return;
  const auto place =
      static_cast<std::size_t>(std::clamp<std::int64_t>(number(place_in_word, 1), 1, std::ssize(word) - 1));
  const std::size_t known = letters.find(word[place].symbol);
  const bool valued = known != std::string::npos && known + 1 < letters.size() && letters[known + 1] == ':';
  const bool last = valued || place + 1 == word.size(), apart = valued && place + 1 == word.size();
  assign(text_of(fields[2]), {known == std::string::npos ? letters_of("?", word[place].line) : Letters{word[place]}});
  if (apart)
    assign("OPTARG", {at < count ? state_.parameters[static_cast<std::size_t>(at)] : Letters()});
  else if (valued)
    assign("OPTARG", {slice(word, place + 1, word.size())});
  assign(place_in_word, {letters_of(std::to_string(last ? 1 : place + 1), 0)});
  assign("OPTIND", {letters_of(std::to_string(at + (apart ? 2 : last ? 1 : 0)), 0)});
}

// read NAME ... of a here-document or a pipe; what only a running shell reads is not known.
void Evaluator::run_read(const Fields& fields, const Node& node) {
  std::vector<std::string> names;
  bool whole = false;
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const std::string word = text_of(fields[i]);
    if (!word.starts_with('-')) {
      names.push_back(word);
    } else if (word.ends_with('d')) {
      whole = ++i < fields.size() && fields[i].empty();
    } else if (word.ends_with('p') || word.ends_with('t') || word.ends_with('u')) {
      ++i;
    }
  }
  const auto input = input_of(node);
  status_ = input ? Truth::yes : Truth::unknown;
  if (!input || names.empty()) {
    unknown_ += node.text;
    for (const std::string& name : names) {
      state_.variables.erase(name);
      miss(name);
    }
    return;
  }
  if (whole) return assign(names[0], {*input});
  std::size_t at = 0;
  const auto ends = [&](std::size_t place) { return place >= input->size() || (*input)[place].symbol == '\n'; };
  for (std::size_t i = 0; i < names.size(); ++i) {
    while (!ends(at) && is_blank((*input)[at].symbol)) ++at;
    const std::size_t first = at;
    while (!ends(at) && (i + 1 == names.size() || !is_blank((*input)[at].symbol))) ++at;
    assign(names[i], {slice(*input, first, at)});
  }
}

}  // namespace plumbline::model::megatron
