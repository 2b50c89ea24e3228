// The files that a plan names for its routing, its documents and its requests: measured loads of experts (`plumbline
// run
// --expert-loads` writes them), lengths of documents, and of the prompts and answers of requests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

// What the experts of one layer received.
struct LayerRows {
  std::int64_t layer = 0;    // of the model; -1: the multi-token prediction module
  std::vector<double> rows;  // [expert]
};

// Returns loads as CSV with the header layer,expert,rows; `comments` come first, each on a line of its own after "# ".
std::string expert_loads_csv(const std::vector<LayerRows>& loads, const std::vector<std::string>& comments);

// Parses such a CSV; `path` only appears in errors. Input errors name file and line: another header, bad or negative
// numbers, an expert that a layer lacks or has twice, layers with different numbers of experts, a layer without rows.
Result<std::vector<LayerRows>> parse_expert_loads(std::string_view text, const std::string& path);

struct RequestLength {  // tokens
  double input = 0, output = 0;
};

struct RoutingFiles {
  std::vector<LayerRows> loads;          // routing.load_file
  std::vector<double> document_lengths;  // batch.document_lengths, tokens; a number on each line, # begins a comment
  std::vector<RequestLength> requests;   // inference.lengths; input,output on each line
};

// Reads the files, of which an empty path names none. Input errors name file and line.
Result<std::shared_ptr<const RoutingFiles>> read_routing_files(const std::string& loads, const std::string& documents,
                                                               const std::string& requests);

}  // namespace plumbline::model
