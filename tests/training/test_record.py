"""A line of the journal is made of the steps since the one before."""

from chainrule.training.record import Records


def test_a_record_has_the_mean_loss_the_largest_norm_and_the_part_that_was_clipped():
    records = Records(since=2.0)
    for nats, norm in ((30.0, 0.5), (20.0, 3.0), (25.0, 0.7), (25.0, 0.2)):
        records.add(nats, 10, norm, norm > 1, 0.01)
    assert records.averages(seconds=4.0) == {
        "loss": 2.5, "learning_rate": 0.01, "gradient_norm": 3.0, "clipped": 0.25, "tokens_per_second": 20,
    }  # fmt: skip
