//! temporary
fn main() {
    let r =
        pinhead::conform::run(std::path::Path::new(&std::env::args().nth(1).unwrap_or_default()))
            .expect("x");
    for d in &r.differences {
        println!("{d}");
    }
    println!("conform: {} of {} scenarios agree", r.agree, r.total);
}
