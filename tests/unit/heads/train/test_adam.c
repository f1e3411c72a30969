/* Adam's first steps by hand: of a gradient that stays the same each step is as long as the
 * learning rate, whatever the gradient's size, because both moments are corrected for their start
 * at 0. */
#include "heads/train/adam.h"
#include "heads/train/train.h"
#include "tests/unit/unit.h"

#include <math.h>

static struct hrf_head *make_head(void)
{
    struct hrf_head_form form = { .kind = HRF_HEAD_MEAN, .width = 4, .n_classes = 2 };
    struct hrf_head *head = NULL;
    if (hrf_training_check_processor(NULL) != HRF_OK)
        skip();
    hrf_head_form_complete(&form);
    assert_int_equal(hrf_head_create(&form, 1, &head, NULL), HRF_OK);
    assert_true(head->n_parameters == 2); /* the classifier's weights and its bias */
    for (int64_t i = 0; i < head->n_values; i++)
        head->values[i] = 1;
    return head;
}

static void set_grad(struct hrf_tensor *p, float grad)
{
    for (int64_t i = 0; i < hrf_tensor_count(p); i++)
        p->grad[i] = i % 2 == 0 ? grad : -grad;
    p->has_grad = true;
}

/* All of a parameter's even places are at `even`, the others at `odd`. */
static void assert_at(const struct hrf_tensor *p, double even, double odd)
{
    for (int64_t i = 0; i < hrf_tensor_count(p); i++)
        if (!(fabs((double)p->data[i] - (i % 2 == 0 ? even : odd)) < 1e-5))
            fail_msg("%s[%d] is %.7f", p->name, (int)i, (double)p->data[i]);
}

static void each_step_is_as_long_as_the_learning_rate(void **state)
{
    (void)state;
    HRF_AUTO(hrf_head) head = make_head();
    struct hrf_adam adam = { .learning_rate = 0.125 };
    hrf_adam_init(&adam, head);
    set_grad(&head->parameters[0], 0.01F);
    set_grad(&head->parameters[1], 100);
    for (int k = 1; k <= 3; k++) {
        hrf_adam_step(&adam, head);
        assert_at(&head->parameters[0], 1 - 0.125 * k, 1 + 0.125 * k);
        assert_at(&head->parameters[1], 1 - 0.125 * k, 1 + 0.125 * k);
    }
    hrf_adam_release(&adam);
}

/* Its weights decay no more than they move, and its count of steps stands still: the first gradient
 * is corrected as a first one. */
static void a_parameter_without_a_gradient_stays_as_it_is(void **state)
{
    (void)state;
    HRF_AUTO(hrf_head) head = make_head();
    struct hrf_adam adam = { .learning_rate = 0.125, .weight_decay = 0.5, .is_decoupled = true };
    hrf_adam_init(&adam, head);
    set_grad(&head->parameters[0], 0.01F);
    hrf_adam_step(&adam, head);
    hrf_adam_step(&adam, head);
    assert_at(&head->parameters[1], 1, 1);
    set_grad(&head->parameters[1], 0.01F);
    hrf_adam_step(&adam, head);
    assert_at(&head->parameters[1], 0.9375 - 0.125, 0.9375 + 0.125);
    hrf_adam_release(&adam);
}

/* Decoupled: a share of the weight, beside the step. Otherwise it is a part of the gradient, which
 * here is turned around by it. */
static void weight_decay_is_beside_the_step_or_in_the_gradient(void **state)
{
    (void)state;
    for (int is_decoupled = 0; is_decoupled < 2; is_decoupled++) {
        HRF_AUTO(hrf_head) head = make_head();
        struct hrf_adam adam = { .learning_rate = 0.125,
                                 .weight_decay = 0.5,
                                 .is_decoupled = is_decoupled };
        hrf_adam_init(&adam, head);
        set_grad(&head->parameters[0], 0.25F); /* with the decay 0.75 and 0.25 */
        hrf_adam_step(&adam, head);
        if (is_decoupled)
            assert_at(&head->parameters[0], 0.9375 - 0.125, 0.9375 + 0.125);
        else
            assert_at(&head->parameters[0], 1 - 0.125, 1 - 0.125);
        hrf_adam_release(&adam);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_is_as_long_as_the_learning_rate),
        cmocka_unit_test(a_parameter_without_a_gradient_stays_as_it_is),
        cmocka_unit_test(weight_decay_is_beside_the_step_or_in_the_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
