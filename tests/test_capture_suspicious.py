import pytest

from perf_pipeline.capture.suspicious import holds_credential, holds_e_mail, names_side_effect


@pytest.mark.parametrize(
    "text",
    ["/logout", "/log-out", "/logOut", "/log_off", "/SignOut", "/a/sign-off?", "/email/unsubscribe", "/confirm/17",
     "/verify", "/reset", "/deleteAccount", "/delete_account", "/account-delete", "/removeItem", "/export", "/exports",
     "/downloads/1", "/oauth2/x", "/webhooks", "/poll", "/polling", "/stream", "/v2export", "/logout2",
     "/accountDelete", "/users/confirmation", "/email-verification", "/activate", "/activation/17", "/unlock",
     "/opt-out", "/approve", "/add-to-cart", "/addToBasket"],
)  # fmt: skip
def test_words_of_side_effects(text: str) -> None:
    assert names_side_effect(text)


@pytest.mark.parametrize(
    "text",
    ["/", "/products/17", "/blog", "/catalog/out", "/signs", "/undeleted", "/polls-of-opinion"[:6], "/upstreams",
     "/exported", "/unlocked", "/inactive", "/adopt", "/addtocartoon", "/resettle",
      "/pollen", "/design", "/canceled", "/oauthor"],
)  # fmt: skip
def test_other_words(text: str) -> None:
    assert names_side_effect(text) is (text in ("/polls",))


@pytest.mark.parametrize(
    "text", ["a@b.de", "mail Ann <ann.o'neil+x@mail.co.example>!", "x=1,a@b.de", "ü@ö.de", "a@@b@c.de"]
)
def test_e_mail_addresses(text: str) -> None:
    assert holds_e_mail(text)


@pytest.mark.parametrize("text", ["", "@", "a@b", "a @ b.de", "user@", "@b.de", "a@.de", "2@4"])
def test_what_is_no_e_mail_address(text: str) -> None:
    assert not holds_e_mail(text)


@pytest.mark.parametrize(
    "text",
    [
        "eyJhbGciOi.eyJzdWIi.sig",
        "x_eyJhbGciOi.eyJzdWIi",
        "Bearer abc",
        "BEARER  x",
        "ewogImFsZyI." + "a" * 20 + "." + "b_-" * 8,
        "AKIA" + "IOSFODNN7EXAMPLE", "key=AIza" + "Sy" * 18, "ghp_" + "a1" * 18, "glpat-" + "x" * 20,
        "xoxb-" + "1" * 12, "sk_live_" + "a" * 24, "x AKIA" + "A" * 16,
    ],
)  # fmt: skip
def test_credentials(text: str) -> None:
    assert holds_credential(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "eyJpZCI6MTd9",
        "eyJ.a",
        "bearer",
        "forbearers x",
        "eyJhbGciOi.x",
        "www.shop.example",
        "1.22.333",
        "a" * 30 + "." + "b" * 30,
        "AKIA", "AIzawa", "ghp_cat", "xoxo-hugs-and-kisses", "task_live_" + "a" * 24, "XAKIA" + "A" * 16,
    ],
)  # fmt: skip
def test_what_is_no_credential(text: str) -> None:
    assert not holds_credential(text)
