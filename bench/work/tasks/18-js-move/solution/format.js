function money(amount) {
  return amount.toFixed(2) + " EUR";
}

module.exports = { money };
