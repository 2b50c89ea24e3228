#include "model/routing/files.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "model/base/text.h"
#include "model/base/text_file.h"

namespace plumbline::model {
namespace {

constexpr std::string_view loads_header = "layer,expert,rows";

struct LoadLine {
  std::int64_t layer = 0, expert = 0;
  double rows = 0;
};

std::optional<LoadLine> parse_load_line(std::string_view text) {
  constexpr std::int64_t most = 1'000'000;
  const std::vector<std::string_view> cells = split_at(text, ',');
  if (cells.size() != 3) return std::nullopt;
  const auto layer = parse_number<std::int64_t>(trimmed(cells[0]));
  const auto expert = parse_number<std::int64_t>(trimmed(cells[1]));
  const auto rows = parse_number<double>(trimmed(cells[2]));
  if (!layer || !expert || !rows || *layer < -1 || *layer > most || *expert < 0 || *expert > most) return std::nullopt;
  if (!std::isfinite(*rows) || *rows < 0) return std::nullopt;
  return LoadLine{*layer, *expert, *rows};
}

// Returns whether a line has content: it is neither blank nor a comment.
bool has_content(std::string_view line) { return !line.empty() && line.front() != '#'; }

std::optional<double> parse_length(std::string_view text) {
  const auto length = parse_number<double>(trimmed(text));
  return length && std::isfinite(*length) && *length >= 1 ? length : std::nullopt;
}

std::optional<RequestLength> parse_request(std::string_view line) {
  const std::vector<std::string_view> cells = split_at(line, ',');
  if (cells.size() != 2) return std::nullopt;
  const auto input = parse_length(cells[0]), output = parse_length(cells[1]);
  if (!input || !output) return std::nullopt;
  return RequestLength{*input, *output};
}

// Parses each line with content of a file; `what` and `hint` describe them.
template <class Parse>
auto read_lines(const std::string& path, const Parse& parse, std::string_view what, const std::string& hint)
    -> Result<std::vector<typename decltype(parse(std::string_view()))::value_type>> {
  const auto text = TRY(read_text_file(path));
  std::vector<typename decltype(parse(std::string_view()))::value_type> values;
  int number = 0;
  for (const std::string_view raw : lines_of(text)) {
    ++number;
    const std::string_view line = trimmed(raw);
    if (!has_content(line)) continue;
    const auto value = parse(line);
    if (!value) return wrong_input_at(path, number, "", fmt::format("'{}' is no {}", line, what), hint);
    values.push_back(*value);
  }
  if (values.empty()) return wrong_input_at(path, 0, "", fmt::format("no {} in it", what), hint);
  return values;
}

}  // namespace

std::string expert_loads_csv(const std::vector<LayerRows>& loads, const std::vector<std::string>& comments) {
  std::string out;
  for (const std::string& comment : comments) out += fmt::format("# {}\n", comment);
  out += fmt::format("{}\n", loads_header);
  for (const LayerRows& layer : loads)
    for (std::size_t e = 0; e < layer.rows.size(); ++e) out += fmt::format("{},{},{}\n", layer.layer, e, layer.rows[e]);
  return out;
}

Result<std::vector<LayerRows>> parse_expert_loads(std::string_view text, const std::string& path) {
  std::map<std::int64_t, std::map<std::int64_t, double>> found;
  bool header = false;
  int number = 0;
  for (const std::string_view raw : lines_of(text)) {
    ++number;
    const std::string_view line = trimmed(raw);
    if (!has_content(line)) continue;
    if (!std::exchange(header, true)) {
      if (line == loads_header) continue;
      return wrong_input_at(path, number, "", fmt::format("expected the header {}", loads_header));
    }
    const auto load = parse_load_line(line);
    if (!load)
      return wrong_input_at(path, number, "", fmt::format("'{}' is not layer, expert and rows", line),
                            "layers count from 0, -1 is the prediction module; rows are not negative");
    if (!found[load->layer].try_emplace(load->expert, load->rows).second)
      return wrong_input_at(path, number, "", fmt::format("expert {} is in layer {} twice", load->expert, load->layer));
  }
  if (found.empty()) return wrong_input_at(path, 0, "", "no loads in it", "plumbline run --expert-loads writes them");
  std::vector<LayerRows> loads;
  for (const auto& [layer, rows] : found) {
    LayerRows& one = loads.emplace_back(LayerRows{layer, {}});
    for (const auto& [expert, count] : rows) {
      if (expert != std::ssize(one.rows))
        return wrong_input_at(path, 0, "", fmt::format("layer {} lacks expert {}", layer, one.rows.size()));
      one.rows.push_back(count);
    }
    if (one.rows.size() != loads.front().rows.size())
      return wrong_input_at(path, 0, "",
                            fmt::format("layer {} has {} experts, layer {} has {}", layer, one.rows.size(),
                                        loads.front().layer, loads.front().rows.size()));
    if (std::accumulate(one.rows.begin(), one.rows.end(), 0.0) == 0)
      return wrong_input_at(path, 0, "", fmt::format("layer {} has no rows", layer), "leave the layer out");
  }
  return loads;
}

Result<std::shared_ptr<const RoutingFiles>> read_routing_files(const std::string& loads, const std::string& documents,
                                                               const std::string& requests) {
  RoutingFiles files;
  if (!loads.empty()) {
    const auto text = TRY(read_text_file(loads));
    files.loads = TRY(parse_expert_loads(text, loads));
  }
  if (!documents.empty())
    files.document_lengths =
        TRY(read_lines(documents, parse_length, "number of tokens", "write the length of one document on each line"));
  if (!requests.empty())
    files.requests = TRY(read_lines(requests, parse_request, "length of input and output",
                                    "write the tokens of one request on each line: input,output"));
  return std::make_shared<const RoutingFiles>(std::move(files));
}

}  // namespace plumbline::model
