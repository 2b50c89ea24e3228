// The published profile of one overlapped DualPipe pair on an H800, kernel by kernel, and its phases.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/inputs.h"

namespace plumbline::tests {

struct PublishedKernel {
  int stream = 0;  // 7 compute, 23 second weight-gradient stream, 27 communication
  std::string kind, phase, note;
  int layer = 0;
  double start = 0, end = 0;  // seconds
};

struct PublishedChunk {
  static constexpr int compute = 7, communication = 27;
  std::vector<PublishedKernel> kernels;  // in order of start

  PublishedChunk() {
    std::ifstream file(shipped("calibrate/published/h800_dualpipe_chunk.csv"));
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#' || line.starts_with("index")) continue;
      std::array<std::string, 9> field;  // index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note
      std::istringstream stream(line);
      for (std::string& f : field) std::getline(stream, f, ',');
      const double start = std::stod(field[5]) * 1e-6;
      kernels.push_back({std::stoi(field[1]), field[2], field[3], field[8], std::stoi(field[4]), start,
                         start + std::stod(field[6]) * 1e-6});
    }
  }

  double seconds() const {
    double last = 0;
    for (const PublishedKernel& k : kernels) last = std::max(last, k.end);
    return last;
  }

  // Time in which a kernel runs on a compute stream.
  double compute_busy() const {
    double busy = 0, until = 0;
    for (const PublishedKernel& k : kernels) {
      if (k.stream == communication) continue;
      busy += std::max(0.0, k.end - std::max(k.start, until));
      until = std::max(until, k.end);
    }
    return busy;
  }

  // Spans of the phases, [slot] by name: first start to last end of kernels of one phase that follow each
  // other on a stream. The order within a slot names them.
  std::array<std::map<std::string, double>, 4> phases() const {
    std::array<std::map<std::string, double>, 4> all;
    add_phases(compute, {"attn(F)", "mlp(B)", "mlp(W)", "mlp(F)", "attn(B)", "attn(W)"}, all);
    add_phases(communication, {"combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"}, all);
    return all;
  }

  // Routed rows of this rank in a slot, padded, on the forward or the backward side.
  double rows(int slot, bool forward) const {
    const int layer = forward ? slot : 3 - slot;
    for (const PublishedKernel& k : kernels) {
      const std::size_t at = k.note.find("rows=");
      if (at != std::string::npos && k.layer == layer && (k.phase == "F") == forward)
        return std::stod(k.note.substr(at + 5));
    }
    return 0;
  }

 private:
  void add_phases(int stream, const std::vector<std::string>& names,
                  std::array<std::map<std::string, double>, 4>& all) const {
    std::vector<PublishedKernel> runs;
    for (const PublishedKernel& k : kernels) {
      if (k.stream != stream) continue;
      if (!runs.empty() && runs.back().phase == k.phase && runs.back().layer == k.layer)
        runs.back().end = k.end;
      else
        runs.push_back(k);
    }
    for (std::size_t i = 0; i < runs.size(); ++i)
      all.at(i / names.size())[names[i % names.size()]] = runs[i].end - runs[i].start;
  }
};

}  // namespace plumbline::tests
