// The shapes of a component table that its fit leaves out, and the errors on them. The split is by shape alone: all
// softwares and versions of a table leave out the same shapes.
#pragma once

#include <Eigen/Core>
#include <string>
#include <vector>

#include "model/profile/cluster.h"

namespace plumbline::calibrate {

struct FitMachine {  // what the fits and rooflines take from datasheets
  model::Device device;
  double nvlink_rate = 0;  // B/s per GPU and direction
  double nic_rate = 0;     // B/s per GPU and direction
};

// Errors on the rows of a table that were left out of its fit, row by row.
struct HeldOut {
  std::string family;  // "gemm", "attention", "experts", "collectives", "exchange", "tray"
  std::string table;   // what tells tables of a family apart: "sglang bf16"
  std::size_t fitted_rows = 0;
  std::vector<double> errors;    // |predicted / measured - 1| with the fitted constants
  std::vector<double> roofline;  // the same of a datasheet roofline
};

// Returns whether the shape with this key ("2-8192-64-8-128") is left out: CRC-32 of the key is a multiple of three.
bool is_held_out(const std::string& key);

// Adds the errors of the rows that `held` marks.
void add_errors(const Eigen::VectorXd& predicted, const Eigen::VectorXd& roofline, const Eigen::VectorXd& measured,
                const std::vector<bool>& held, HeldOut& result);

// Returns the elements that are, or are not, marked.
Eigen::VectorXd selected(const Eigen::VectorXd& values, const std::vector<bool>& marks, bool wanted);

template <class Row>
std::vector<Row> selected(const std::vector<Row>& rows, const std::vector<bool>& marks, bool wanted) {
  std::vector<Row> found;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (marks[i] == wanted) found.push_back(rows[i]);
  return found;
}

template <class Row>
Eigen::VectorXd seconds_of(const std::vector<Row>& rows) {
  Eigen::VectorXd seconds(static_cast<Eigen::Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) seconds[static_cast<Eigen::Index>(i)] = rows[i].seconds;
  return seconds;
}

}  // namespace plumbline::calibrate
